"""A portfolio as sections: placement, use of each pool, and total cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.present.cells import Fact, Facts, Paragraph, Section, text_table
from planner.present.time import share_text
from planner.units import count_text, counted, usd_text

if TYPE_CHECKING:
    from planner.engine.procurement.portfolio.records import PoolUse, Portfolio


def portfolio_sections(found: Portfolio) -> list[Section]:
    """Cost, workloads and pools of a portfolio."""
    if not found.workloads:
        return [Section("No placement", [Paragraph("; ".join(found.notes) or "There is none.")])]
    workloads = [
        (
            one.name,
            one.gpu,
            one.layout if one.share == 1 else f"1/{one.share} of a GPU",
            _count(one.gpus_at_least, one.gpus_at_most),
            "yes" if one.interruptible else "no",
            usd_text(one.alone_usd_per_month),
        )
        for one in found.workloads
    ]
    heads = ("workload", "GPU", "layout", "GPUs over the day", "may stop", "alone, $/month")
    pools = [
        (one.gpu, _count(one.gpus_at_least, one.gpus_at_most), "; ".join(_taken(one)), usd_text(one.usd_per_month))
        for one in found.pools
    ]
    return [
        Section(f"{counted(len(found.workloads), 'workload')} on one stock", [Facts(list(_facts(found)))]),
        Section("What runs where", [text_table(heads, workloads, (heads[3], heads[5]))]),
        Section("What to take", [text_table(("GPU", "GPUs", "taken", "$/month"), pools, ("GPUs", "$/month"))]),
    ]


def _facts(found: Portfolio) -> Iterator[Fact]:
    yield Fact("together", f"{usd_text(found.usd_per_month)} $", f"a month, over {found.months} months")
    if found.alone_usd_per_month is not None and found.alone_usd_per_month > 0:
        saved = 1 - found.usd_per_month / found.alone_usd_per_month
        yield Fact(
            "each alone",
            f"{usd_text(found.alone_usd_per_month)} $",
            f"a month on what is rented for it alone; sharing saves {share_text(saved)}",
        )
    proof = ""
    if found.gap is not None:
        proof = f"no mix is more than {found.gap * 100:.2g} % cheaper" if found.gap > 0 else "no mix is cheaper"
    yield Fact("found by", found.solver, proof)


def _taken(use: PoolUse) -> Iterator[str]:
    """Phrases on the GPUs taken from a pool, one for each source."""
    if use.owned:
        yield f"{use.owned} of your own ({usd_text(use.owned_usd_per_month)} $ of power)"
    if use.bought:
        yield f"buy {use.bought} ({usd_text(use.bought_usd_per_month)} $)"
    if use.committed:
        yield f"commit to {use.committed} ({use.committed_on}, {usd_text(use.committed_usd_per_month)} $)"
    if use.hourly_gpu_h:
        yield f"{count_text(use.hourly_gpu_h)} GPU-hours by the hour ({use.hourly_from}, {usd_text(use.hourly_usd_per_month)} $)"
    if use.spot_gpu_h:
        yield f"{count_text(use.spot_gpu_h)} GPU-hours on spot ({use.spot_from}, {usd_text(use.spot_usd_per_month)} $)"


def _count(least: int, most: int) -> str:
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"
