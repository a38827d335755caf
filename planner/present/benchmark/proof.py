"""The table of a proving run: expected, seen, verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.present.cells import Paragraph, Section, text_table
from planner.units import UNKNOWN, quantity_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.engine.estimate.proof import Proof


def proof_section(device: str, lines: Sequence[Proof]) -> Section:
    """One row for each point, and the count of each verdict."""
    heads = ("point", "expected", "seen", "verdict", "why")
    rows = [(one.point, _range(one), quantity_text(one.seen, one.unit), one.verdict, one.why) for one in lines]
    counts = {verdict: sum(one.verdict == verdict for one in lines) for verdict in dict.fromkeys(one.verdict for one in lines)}
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return Section(
        f"What {device} shows", [text_table(heads, rows, numeric=heads[1:3]), Paragraph(f"{len(lines)} figures: {verdicts}.")]
    )


def _range(one: Proof) -> str:
    if one.low is None or one.high is None:
        return UNKNOWN
    return f"{quantity_text(one.low, one.unit)} - {quantity_text(one.high, one.unit)}"
