"""Cheaper GPUs for the same work: by the engine where the workload is known, else by the observed needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from planner.engine.advice.observation import MARGIN, Observed
from planner.engine.advice.ownership import Quote
from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.engine.performance.operators.chip import Chip, FindChip
from planner.errors import UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.units import bytes_text, percent_text, si_text
from planner.workload.tasks import Request, Workload

SM_ROOM = 0.85
"""Highest share of the multiprocessors' cycles that a job may fill."""
LEAST_GAIN = 0.02
"""Smallest relative saving that is worth a move."""

Estimate = Callable[[Sequence[Request]], list[Answer | UserError]]


class ObservedNeed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Resources that the job was observed to use, with a margin; None: not observed."""

    memory_bytes: float | None = None
    bytes_per_s: float | None = None
    matrix_flop_per_s: float | None = None
    """Counted as if all products were in 16 bits."""
    vector_flop_per_s: float | None = None
    """FP32 pipes."""
    sm_hz: float | None = None
    """Busy multiprocessors · their clock, where the job is limited neither by arithmetic nor by bandwidth."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cheaper GPU that would be enough, and how that was checked."""

    gpu: str
    quote: Quote
    checked_by: str
    """'engine', or 'needs'."""
    checks: list[str]
    tokens_per_s: Figure | None = None


def needs(seen: Observed, gpu: Gpu, *, by_cycles: bool) -> ObservedNeed:
    """Resources of `gpu` that `seen` used: shares of the counters times the vendor's figures, and `MARGIN`.

    `by_cycles`: as many busy multiprocessors are needed too, where nothing else shows the amount of work.
    """
    clock = seen.sm_clock_hz / gpu.boost_clock_hz if seen.sm_clock_hz and gpu.boost_clock_hz else 1.0

    def times(share: float | None, figure: float | None) -> float | None:
        return None if share is None or figure is None else share * figure * MARGIN

    half = gpu.compute_flop_per_s.get("bf16") or gpu.compute_flop_per_s.get("fp16")
    single = gpu.compute_flop_per_s.get("fp32")
    cycles = gpu.sm_count * seen.sm_clock_hz if gpu.sm_count and seen.sm_clock_hz else None
    return ObservedNeed(
        memory_bytes=seen.memory_used_bytes * MARGIN if seen.memory_used_bytes is not None else None,
        bytes_per_s=times(seen.dram_bandwidth, gpu.memory_bandwidth_bytes_per_s),
        matrix_flop_per_s=times(seen.tensor_active, half * min(1.0, clock) if half else None),
        vector_flop_per_s=times(seen.fp32_active, single * min(1.0, clock) if single else None),
        sm_hz=times(seen.sm_active, cycles) if by_cycles else None,
    )


def unmet(need: ObservedNeed, gpu: Gpu, chip: Chip) -> str | None:
    """First item of `need` that `gpu` does not have, by reachable rates instead of the data sheet; None: it has all."""
    single = gpu.compute_flop_per_s.get("fp32")
    has = (
        ("memory", need.memory_bytes, chip.capacity_bytes),
        ("memory bandwidth", need.bytes_per_s, chip.bandwidth_bytes_per_s),
        ("16-bit products", need.matrix_flop_per_s, chip.flop_per_s),
        ("FP32", need.vector_flop_per_s, single),
        ("multiprocessors", need.sm_hz, gpu.sm_count * (gpu.boost_clock_hz or 0.0) * SM_ROOM if gpu.sm_count else None),
    )
    return next((name for name, needed, there in has if needed is not None and (there is None or there < needed)), None)


def cheaper_by_needs(
    need: ObservedNeed, now: Gpu, price: Quote, gpus: Iterable[Gpu], prices: Mapping[str, Quote], chip: FindChip
) -> list[Candidate]:
    """Single GPUs of the same vendor that cost less, compute in BF16 if `now` does, and have all of `need`; the cheapest first."""
    half = "bf16" if "bf16" in now.compute_flop_per_s else "fp16"
    found = []
    for gpu in gpus:
        quote = _cheaper(gpu, now, price, prices)
        figures = chip(gpu, half, half) if quote is not None else None
        if quote is None or figures is None or unmet(need, gpu, figures) is not None:
            continue
        checks = [f"{bytes_text(need.memory_bytes)} of its {bytes_text(figures.capacity_bytes)}"] if need.memory_bytes else []
        if need.bytes_per_s:
            checks.append(f"{si_text(need.bytes_per_s, 'B/s')} of the {si_text(figures.bandwidth_bytes_per_s, 'B/s')} it reaches")
        if need.matrix_flop_per_s:
            checks.append(f"{si_text(need.matrix_flop_per_s, 'FLOP/s')} of the {si_text(figures.flop_per_s, 'FLOP/s')} it reaches")
        margin = [f"each {percent_text(MARGIN - 1)} more than was used"] if checks else []
        found.append(Candidate(gpu=gpu.name, quote=quote, checked_by="needs", checks=[*checks, *margin, *caveats(gpu)]))
    return sorted(found, key=lambda one: (one.quote.usd_per_h, one.gpu))


def cheaper_by_engine(
    workload: Workload,
    now: Gpu,
    price: Quote,
    gpus: Iterable[Gpu],
    prices: Mapping[str, Quote],
    estimate: Estimate,
    observed_tokens_per_s: float | None,
) -> tuple[list[Candidate], Answer | str]:
    """Single GPUs that cost less, on which the engine fits `workload` at the observed throughput; and its answer for `now`.

    The throughput is `observed_tokens_per_s`, else the engine's prediction for `now`. A candidate keeps it when the value of its
    range reaches it; the text says whether all of the range does. The second value is a reason when the workload cannot be what was observed.
    """
    cheaper = [(gpu, quote) for gpu in gpus if (quote := _cheaper(gpu, now, price, prices)) is not None]
    requests = [_request(workload, gpu.name) for gpu in (now, *(gpu for gpu, _ in cheaper))]
    here, *others = estimate(requests)
    if isinstance(here, UserError):
        return [], str(here.problems[0])
    if not here.fits or here.tokens_per_s is None:
        return [], f"it does not run on one {now.name}: {here.reason or 'its speed is not known'}"
    wanted = observed_tokens_per_s or here.tokens_per_s.value
    found = []
    for (gpu, quote), answer in zip(cheaper, others, strict=True):
        rate = None if isinstance(answer, UserError) else answer.tokens_per_s
        if isinstance(answer, UserError) or not answer.fits or rate is None or rate.value < wanted:
            continue
        memory = answer.memory_bytes
        checks = [f"fits: {bytes_text(memory.total.value)} of {bytes_text(memory.capacity)}"] if memory else ["fits"]
        surely = "all of its range" if rate.low >= wanted else "its range begins below"
        checks.append(
            f"{si_text(rate.value)} tokens/s ({si_text(rate.low)} to {si_text(rate.high)}) for the {si_text(wanted)} there are: {surely}"
        )
        found.append(Candidate(gpu=gpu.name, quote=quote, checked_by="engine", checks=checks + caveats(gpu), tokens_per_s=rate))
    return sorted(found, key=lambda one: (one.quote.usd_per_h, one.gpu)), here


def caveats(gpu: Gpu) -> list[str]:
    """Conditions of a move to `gpu`."""
    superchip = "superchip" in (gpu.form_factor or "").casefold()
    return ["its host has an ARM processor: programs must be available for it"] if superchip else []


def changed(workload: Workload, gpu: str, estimate: Estimate, **fields: object) -> Answer | None:
    """Answer for one `gpu` with `fields` of the workload changed; None if that is rejected or does not fit."""
    (answer,) = estimate([_request(msgspec.structs.replace(workload, **fields), gpu)])
    return None if isinstance(answer, UserError) or not answer.fits else answer


def _cheaper(gpu: Gpu, now: Gpu, price: Quote, prices: Mapping[str, Quote]) -> Quote | None:
    quote = prices.get(gpu.name)
    if quote is None or quote.whole > 1 or gpu.name == now.name or gpu.vendor != now.vendor:
        return None
    return quote if quote.usd_per_h <= price.usd_per_h * (1 - LEAST_GAIN) else None


def _request(workload: Workload, gpu: str) -> Request:
    stated = {name: getattr(workload, name) for name in Workload.__struct_fields__}
    return Request(**stated, gpu=gpu, gpus=1)
