"""The guided way as sections: its five steps, and the decision tree behind them."""

from __future__ import annotations

from planner.engine.procurement.guide import Guide
from planner.present.cells import Paragraph, Points, Section, text_table

TITLES = {
    "profile": "1. Profile",
    "bottleneck": "2. Bottleneck",
    "right-size": "3. Right size",
    "where": "4. Where",
    "commit": "5. Commit",
}


def guide_sections(guide: Guide) -> list[Section]:
    """A section a step, then the tree."""
    steps = [Section(TITLES[step.name], [Paragraph(step.answer, "strong"), Points(step.reasons)]) for step in guide.steps]
    return [*steps, tree_section(guide)] if guide.tree else steps


def tree_section(guide: Guide) -> Section:
    """Each question of the tree with its answer and the numbers behind it."""
    rows = [(branch.question, branch.answer, branch.reason) for branch in guide.tree]
    return Section("The way down the tree", [text_table(("question", "answer", "because"), rows)])
