"""What to do about one GPU, by what limits it: what costs nothing first, then other hardware, then other prices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from planner.engine.advice.cheaper_gpu import MARGIN, caveats, changed
from planner.engine.advice.diagnosis import BANDWIDTH_BOUND, MEMORY_LOW, OFFER_BENCHMARK, OFTEN_BUSY, SM_HIGH, SM_LOW, Limiter
from planner.engine.advice.mig_slices import SliceNeed, most_of, profiles_of, smallest_for
from planner.engine.advice.prices import Quote
from planner.engine.advice.rightsizing import Action, Case
from planner.engine.answers.answer import Answer
from planner.units import bytes_text, percent_text
from planner.workload.tasks import Market, Workload

Remedy = Callable[[Case], Iterator[Action]]
SLICE_SM_MARGIN = 1.2
"""A slice is narrower than the GPU the job was seen on: kernels that filled it for a moment take longer."""
LEAST_SAVING_USD = 1.0
"""A month; less is not worth naming."""
EIGHT_BIT = ("fp8", "int8")
CODE_AHEAD = "Larger batches, more workers that load data, CUDA graphs or torch.compile"
UNTOLD_BATCH = "How much faster is not in the counters; --preset NAME lets the engine say it."


def remedies(case: Case) -> list[Action]:
    """The actions for this case, in order; 'stay' where nothing saves anything."""
    found = [action for remedy in (pauses, *ORDER[case.judgement.limiter]) for action in remedy(case)]
    told = [action for action in found if action.saves is None or abs(action.saves.usd_per_month) >= LEAST_SAVING_USD]
    worth = any(action.saves is None or action.saves.usd_per_month > 0 for action in told if action.kind != "larger")
    if not worth:
        told.append(Action(kind="stay", text="Stay: no cheaper GPU on offer does the same, and this one is well used."))
    return told


def release(case: Case) -> Iterator[Action]:
    """Give an idle GPU back."""
    saves = case.saving(case.rent, f"{case.rent:.2f} $/h")
    yield Action(kind="release", text="Give it back, or stop the job that holds it, if this window is typical.", saves=saves)


def pauses(case: Case) -> Iterator[Action]:
    """The hours in which nothing ran, of a GPU that works now and then."""
    busy = case.seen.busy
    if busy is None or busy >= OFTEN_BUSY or case.judgement.limiter == "idle":
        return
    text = (
        f"Nothing ran {percent_text(1 - busy)} of the time: give it back in between (scale to zero, a queue), or let other jobs in."
    )
    saves = case.saving(case.rent * (1 - busy), f"{case.rent:.2f} $/h × (1 - {busy:.4f})", at_most=True)
    yield Action(kind="release", text=text, saves=saves)


def batch(case: Case) -> Iterator[Action]:
    """More work per launch: for a host that cannot keep up, and for weights that are read for too few tokens."""
    if case.judgement.limiter == "launch/host":
        active = case.seen.sm_active or 0.0
        saves = case.saving(
            case.rent * (1 - active / SM_HIGH), f"{case.rent:.2f} $/h × (1 - {active:.4f} ÷ {SM_HIGH:.2f})", at_most=True
        )
        text = f"{CODE_AHEAD}: the GPU waits. The same work in as few hours as if SM active rose to {percent_text(SM_HIGH)}."
        yield Action(kind="batch", text=text, saves=saves)
        return
    text = "Larger batches: each reading of the weights then serves more tokens."
    if case.means.workload is None or case.here is None:
        yield Action(kind="batch", text=text, note=UNTOLD_BATCH)
        return
    larger = _larger_batch(case.means.workload)
    if larger is not None and case.gpu is not None:
        name, value = larger
        answer = changed(case.means.workload, case.gpu.name, case.means.estimate, **{name: value})
        yield from _faster(case, "batch", f"{name} {value}: {text}", answer)


def _larger_batch(workload: Workload) -> tuple[str, int] | None:
    """The field that makes the batch twice as large."""
    if workload.batch:
        return "batch", 2 * workload.batch
    if isinstance(workload.concurrency, int):
        return "concurrency", 2 * workload.concurrency
    return ("micro_batch", 2 * workload.micro_batch) if workload.micro_batch else None


def quantise(case: Case) -> Iterator[Action]:
    """Fewer bytes for weights: time where bandwidth binds, room where memory does; where arithmetic binds only the engine can say."""
    workload = case.means.workload
    full = case.judgement.limiter == "memory capacity"
    if workload is not None and case.gpu is not None and case.here is not None:
        if workload.task in {"train", "finetune"} or (workload.weight_dtype or "bf16") not in {"bf16", "fp16", "fp32"}:
            return
        for stored in EIGHT_BIT:
            answer = changed(workload, case.gpu.name, case.means.estimate, weight_dtype=stored)
            if answer is not None:
                yield from _faster(case, "quantise", f"Weights in {stored}", answer)
                return
        return
    if case.judgement.limiter == "compute":
        return
    if full:
        text = "Weights in 8 bits, if they are in 16: half their bytes. In training: the optimizer's state in 8 bits."
        yield Action(
            kind="quantise",
            text=text,
            note="How many bytes are weights is not in the counters; --preset NAME lets the engine say it.",
        )
        return
    saves = case.saving(case.rent / 2, f"{case.rent:.2f} $/h × (1 - 1 ÷ 2)", at_most=True)
    text = "Weights in 8 bits, if they are in 16: at most twice the tokens for the same bytes."
    yield Action(kind="quantise", text=text, saves=saves)


def _faster(case: Case, kind: str, text: str, answer: Answer | None) -> Iterator[Action]:
    """An action by which the engine expects more tokens: the same work in fewer hours; and the bytes it frees."""
    here = case.here
    if answer is None or here is None or answer.tokens_per_s is None or here.tokens_per_s is None:
        return
    ratio = answer.tokens_per_s.value / here.tokens_per_s.value
    freed = here.memory_bytes.total.value - answer.memory_bytes.total.value if here.memory_bytes and answer.memory_bytes else 0.0
    checks = [f"engine: {ratio:.2f} × the tokens/s"] + ([f"{bytes_text(freed)} less memory"] if freed > 0 else [])
    saves = case.saving(case.rent * (1 - 1 / ratio), f"{case.rent:.2f} $/h × (1 - 1 ÷ {ratio:.4f})")
    if kind == "batch" and ratio > 1:
        yield Action(kind="batch", text=text, saves=saves, checks=checks)
    elif kind == "quantise" and (ratio > 1 or freed > 0):
        yield Action(kind="quantise", text=text, saves=saves if ratio > 1 else None, checks=checks)


def checkpoint(case: Case) -> Iterator[Action]:
    """Recompute activations instead of keeping them, in training."""
    workload = case.means.workload
    if workload is None:
        text = "In training: activation checkpointing, about 40 % less memory for 20 to 30 % more time. In serving: fewer sequences at once."
        yield Action(kind="checkpoint", text=text, note="It keeps the job alive; it saves nothing by itself.")
        return
    if workload.task not in {"train", "finetune"} or workload.checkpointing == "full" or case.gpu is None or case.here is None:
        return
    answer = changed(workload, case.gpu.name, case.means.estimate, checkpointing="full")
    if answer is None or answer.memory_bytes is None or case.here.memory_bytes is None or not answer.step_s or not case.here.step_s:
        return
    freed = case.here.memory_bytes.total.value - answer.memory_bytes.total.value
    slower = answer.step_s.value / case.here.step_s.value - 1
    checks = [f"engine: {bytes_text(freed)} less memory, {percent_text(slower)} slower"]
    yield Action(
        kind="checkpoint",
        text="Activation checkpointing.",
        checks=checks,
        note="It keeps the job alive; it saves nothing by itself.",
    )


def mig(case: Case) -> Iterator[Action]:
    """A slice of this GPU, where the job is small and the slice has what it needs."""
    seen, gpu = case.seen, case.gpu
    if gpu is None or seen.slices or seen.memory_used_bytes is None or not seen.counted:
        return
    if (seen.memory_share or 1.0) >= MEMORY_LOW and (seen.sm_active or 0.0) >= SM_LOW:
        return
    profiles = profiles_of(gpu)
    need = slice_need(seen.sm_active, seen.dram_bandwidth, seen.memory_used_bytes)
    profile = smallest_for(need, profiles)
    count = most_of(profile) if profile is not None else 1
    if profile is None or count < 2:
        return
    saves = case.saving(case.rent * (1 - 1 / count), f"{case.rent:.2f} $/h × (1 - 1 ÷ {count})", at_most=True)
    text = f"A MIG slice {profile.name} would do: {count} such jobs on one GPU. It saves when the other slices are used."
    checks = [
        f"multiprocessors {percent_text(need.sm_share)} of the {percent_text(profile.sm_share)} it has",
        f"bandwidth {percent_text(need.bandwidth_share)} of its {percent_text(profile.bandwidth_share)}",
        f"memory {bytes_text(need.memory_bytes)} of its {bytes_text(profile.memory_bytes)}",
    ]
    yield Action(kind="mig", text=text, saves=saves, profile=profile.name, gpu=gpu.name, checks=checks)


def slice_need(sm_active: float | None, dram_bandwidth: float | None, memory_bytes: float) -> SliceNeed:
    """What a job seen on a whole GPU needs of a slice."""
    return SliceNeed((sm_active or 0.0) * SLICE_SM_MARGIN, (dram_bandwidth or 0.0) * MARGIN, memory_bytes * MARGIN)


def cheaper(case: Case) -> Iterator[Action]:
    """The cheapest GPU that would do the same."""
    if not case.cheaper or case.price is None:
        return
    best = case.cheaper[0]
    others = f" So would {', '.join(one.gpu for one in case.cheaper[1:3])}." if len(case.cheaper) > 1 else ""
    by = "the engine fits the workload there at the same throughput" if best.checked_by == "engine" else "it has all that was used"
    if case.judgement.limiter == "idle":
        by = "it has the memory that is held"
    yield Action(
        kind="cheaper",
        text=f"Move to a {best.gpu} at {best.quote.text}: {by}.{others}",
        saves=case.saving(case.rent - best.quote.usd_per_h, f"({case.rent:.2f} - {best.quote.usd_per_h:.2f}) $/h"),
        gpu=best.gpu,
        checks=best.checks,
    )


def larger(case: Case) -> Iterator[Action]:
    """More memory, where nothing else helps; never for a job that is bound by bandwidth."""
    seen, gpu = case.seen, case.gpu
    if gpu is None or case.price is None or seen.memory_used_bytes is None:
        return
    if (seen.dram_bandwidth or 0.0) >= BANDWIDTH_BOUND:
        return
    wanted = seen.memory_used_bytes * MARGIN
    roomy: list[tuple[float, str, Quote]] = []
    for other in case.means.find_gpu.values():
        quote = case.prices["on-demand"].get(other.name)
        chip = case.means.chip(other, "bf16", "bf16") if quote is not None and other.vendor == gpu.vendor else None
        if quote is None or chip is None or quote.whole > 1 or other.name == gpu.name or chip.capacity_bytes < wanted:
            continue
        at_least = gpu.compute_flop_per_s.get("bf16", 0.0), gpu.memory_bandwidth_bytes_per_s
        if other.compute_flop_per_s.get("bf16", 0.0) >= at_least[0] and other.memory_bandwidth_bytes_per_s >= at_least[1]:
            roomy.append((quote.usd_per_h, other.name, quote))
    if not roomy:
        return
    price, name, quote = min(roomy, key=lambda found: found[:2])
    yield Action(
        kind="larger",
        text=f"Or a GPU with room: {name} at {quote.text}. What the changes above save against it is this much.",
        saves=case.saving(case.rent - price, f"({case.rent:.2f} - {price:.2f}) $/h"),
        gpu=name,
        checks=caveats(case.means.find_gpu[name]),
    )


def commit(case: Case) -> Iterator[Action]:
    """The same GPU at another price: spot for work that may be interrupted, a reservation for work that stays."""
    markets: tuple[tuple[Market, str], ...] = (
        ("spot", "Spot, if it may be interrupted (checkpoints in training)"),
        ("reserved-1y", "Reserve it for a year, if it stays"),
        ("reserved-3y", "Reserve it for three years, if it stays"),
    )
    for market, words in markets if case.seen.readings > case.seen.lost else ():
        quote = case.prices[market].get(case.seen.gpu)
        if quote is None or quote.whole > 1 or quote.usd_per_h >= case.rent:
            continue
        yield Action(
            kind="spot" if market == "spot" else "reserve",
            text=f"{words}: {quote.text}.",
            saves=case.saving(case.rent - quote.usd_per_h, f"({case.rent:.2f} - {quote.usd_per_h:.2f}) $/h"),
            gpu=case.seen.gpu,
        )


def clock(case: Case) -> Iterator[Action]:
    """Undo what holds the clock back."""
    share = case.seen.clock_share or 1.0
    saves = case.saving(case.rent * (1 - share), f"{case.rent:.2f} $/h × (1 - {share:.4f})", at_most=True)
    if case.judgement.limiter == "thermal":
        yield Action(kind="cool", text="Cool it, or ask for another machine: it could run at its highest clock.", saves=saves)
        return
    limit, most = case.seen.power_limit_w, case.gpu.tdp_w if case.gpu is not None else None
    if limit is not None and most is not None and limit < most * 0.98:
        text = f"Its power limit is {limit:.0f} W of {most:.0f} W: whoever runs the machine can raise it."
        yield Action(kind="power", text=text, saves=saves)
    else:
        yield Action(
            kind="power",
            text="It runs at its full power limit: less switching (fp8, sparsity, lower voltage) is all there is.",
            note="No offer changes this.",
        )


def link(case: Case) -> Iterator[Action]:
    """Less traffic."""
    text = "Send less: larger batches between exchanges, fewer GPUs per model, NVLink instead of PCIe, inputs kept on the GPU."
    note = "How much faster is not in the counters; `gpu-planner plan` prices other layouts."
    yield Action(kind="link", text=text, note=note, checks=list(case.judgement.because))


def benchmark(case: Case) -> Iterator[Action]:
    """Measure, where nothing can be known; a GPU that does not answer is no use at all."""
    if case.seen.readings == case.seen.lost:
        text = "Have it reset, or hand it back: it is paid for."
        yield Action(kind="release", text=text, saves=case.saving(case.rent, f"{case.rent:.2f} $/h"))
        return
    yield Action(kind="benchmark", text=OFFER_BENCHMARK, gpu=case.seen.gpu)


ORDER: Mapping[Limiter, tuple[Remedy, ...]] = {
    "idle": (release, mig, cheaper),
    "launch/host": (batch, mig, cheaper),
    "bandwidth": (batch, quantise, cheaper, commit),
    "compute": (cheaper, quantise, commit),
    "memory capacity": (checkpoint, quantise, cheaper, larger),
    "thermal": (clock, commit),
    "power": (clock, cheaper, commit),
    "link": (link, commit),
    "unknown": (benchmark, commit),
}
