"""Actions on a GPU, whatever runs on it: give it back, share it, move, change the term of rent, cool it, measure it."""

from __future__ import annotations

from collections.abc import Iterator

from planner.engine.advice.advice import Action
from planner.engine.advice.case import Case
from planner.engine.advice.cheaper_gpu import caveats
from planner.engine.advice.diagnosis import BANDWIDTH_BOUND, MEMORY_LOW, OFFER_BENCHMARK, OFTEN_BUSY, SM_LOW
from planner.engine.advice.mig_slices import most_of, slice_need, smallest_for
from planner.engine.advice.observation import MARGIN
from planner.engine.advice.ownership import Quote
from planner.hardware.catalogue.mig import profiles_of
from planner.units import bytes_text, percent_text
from planner.workload.tasks import Term


def release(case: Case) -> Iterator[Action]:
    """Give an idle GPU back."""
    saves = case.saving()
    yield Action(kind="release", text="Give it back, or stop the job that holds it, if this window is typical.", saves=saves)


def pauses(case: Case) -> Iterator[Action]:
    """Give back a GPU that works only now and then, for the hours in which nothing runs."""
    busy = case.seen.busy
    if busy is None or busy >= OFTEN_BUSY or case.judgement.limiter == "idle":
        return
    text = f"Nothing ran {percent_text(1 - busy)} of the time: give it back in between (scale to zero, a queue), or let other jobs use it."
    saves = case.saving(1 - busy, f"(1 - {busy:.4f})", at_most=True)
    yield Action(kind="release", text=text, saves=saves)


def mig(case: Case) -> Iterator[Action]:
    """Use a slice of this GPU, where the job is small and the slice has what it needs."""
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
    saves = case.saving(1 - 1 / count, f"(1 - 1 ÷ {count})", at_most=True)
    text = f"A MIG slice {profile.name} would do: {count} such jobs on one GPU. It only saves money if the other slices are used."
    checks = [
        f"multiprocessors {percent_text(need.sm_share)} of the {percent_text(profile.sm_share)} it has",
        f"bandwidth {percent_text(need.bandwidth_share)} of its {percent_text(profile.bandwidth_share)}",
        f"memory {bytes_text(need.memory_bytes)} of its {bytes_text(profile.memory_bytes)}",
    ]
    yield Action(kind="mig", text=text, saves=saves, profile=profile.name, gpu=gpu.name, checks=checks)


def cheaper(case: Case) -> Iterator[Action]:
    """Move to the cheapest GPU that would do the same."""
    if not case.cheaper or case.price is None:
        return
    best = case.cheaper[0]
    others = f" So would {', '.join(one.gpu for one in case.cheaper[1:3])}." if len(case.cheaper) > 1 else ""
    by = "the engine fits the workload there at the same throughput" if best.checked_by == "engine" else "it has all that was used"
    if case.judgement.limiter == "idle":
        by = "it has the memory that is held"
    yield Action(
        kind="cheaper",
        text=f"Move to {best.gpu} at {best.quote.text}: {by}.{others}",
        saves=case.saving_at(best.quote.usd_per_h),
        gpu=best.gpu,
        checks=best.checks,
    )


def larger(case: Case) -> Iterator[Action]:
    """Move to a GPU with more memory, where nothing else helps; never for a job that is limited by bandwidth."""
    seen, gpu = case.seen, case.gpu
    if gpu is None or case.price is None or seen.memory_used_bytes is None:
        return
    if (seen.dram_bandwidth or 0.0) >= BANDWIDTH_BOUND:
        return
    wanted = seen.memory_used_bytes * MARGIN
    roomy: list[tuple[float, str, Quote]] = []
    for other in case.inputs.find_gpu.values():
        quote = case.prices["on-demand"].get(other.name)
        chip = case.inputs.chip(other, "bf16", "bf16") if quote is not None and other.vendor == gpu.vendor else None
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
        saves=case.saving_at(price),
        gpu=name,
        checks=caveats(case.inputs.find_gpu[name]),
    )


def commit(case: Case) -> Iterator[Action]:
    """Rent the same GPU at another price: spot for interruptible work, a reservation for lasting work."""
    markets: tuple[tuple[Term, str], ...] = (
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
            saves=case.saving_at(quote.usd_per_h),
            gpu=case.seen.gpu,
        )


def clock(case: Case) -> Iterator[Action]:
    """Undo what holds the clock back."""
    share = case.seen.clock_share or 1.0
    saves = case.saving(1 - share, f"(1 - {share:.4f})", at_most=True)
    if case.judgement.limiter == "thermal":
        yield Action(kind="cool", text="Cool it, or ask for another machine: it could run at its highest clock.", saves=saves)
        return
    limit, most = case.seen.power_limit_w, case.gpu.tdp_w if case.gpu is not None else None
    if limit is not None and most is not None and limit < most * 0.98:
        text = f"Its power limit is {limit:.0f} W of {most:.0f} W: the machine's administrator can raise it."
        yield Action(kind="power", text=text, saves=saves)
    else:
        yield Action(
            kind="power",
            text="It runs at its full power limit: less switching (fp8, sparsity, lower voltage) is all there is.",
            note="No offer changes this.",
        )


def link(case: Case) -> Iterator[Action]:
    """Send less over the link."""
    text = "Send less: larger batches between exchanges, fewer GPUs per model, NVLink instead of PCIe, inputs kept on the GPU."
    note = "Counters do not show how much faster that is; `gpu-planner plan` prices other layouts."
    yield Action(kind="link", text=text, note=note, checks=list(case.judgement.because))


def benchmark(case: Case) -> Iterator[Action]:
    """Measure where nothing is known; give back a GPU that does not answer."""
    if case.seen.readings == case.seen.lost:
        text = "Have it reset, or give it back: it is still paid for."
        yield Action(kind="release", text=text, saves=case.saving())
        return
    yield Action(kind="benchmark", text=OFFER_BENCHMARK, gpu=case.seen.gpu)
