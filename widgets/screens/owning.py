"""Rent or buy: what the highlighted row costs on GPUs that are bought, and from which use on that is cheaper."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from textual.content import Content

from planner.present.choice.sentence import choice_text, count_and_device
from planner.units import usd_text
from widgets.base_app import BaseApp
from widgets.drawing.text import labelled, styled_lines
from widgets.screens.overlay import TextOverlay

if TYPE_CHECKING:
    from planner.engine.answers.plan import PlanRow
    from planner.present.money.owning import Owned

LABEL = 10


async def open_screen(app: BaseApp) -> None:
    """Compare renting with buying for the highlighted row."""
    row = app.table.highlighted
    if row is None:
        return
    gpu = await app.ask(lambda session: session.part_named(row.gpu))
    from planner.present.money.owning import owned

    await app.push_screen(OwningScreen(row, owned(row, gpu)))


class OwningScreen(TextOverlay):
    """Two costs and where they meet."""

    WIDTH = 92

    def __init__(self, row: PlanRow, owned: Owned | None) -> None:
        super().__init__(f"Rent or buy · {count_and_device(row)}")
        self._row, self._owned = row, owned

    def lines(self, width: int) -> Iterator[Content]:
        """The answer first, then the sums."""
        row, owned = self._row, self._owned
        if owned is None:
            missing = "its rent" if row.offer is None else "its price or its power"
            yield Content.styled(f"Not known: {missing} is in no list this program has.", "bold $text-warning")
            return
        years = owned.even.owning.life_years
        pays = owned.even.least_utilisation <= 1
        yield Content.styled(f"Buying {owned.in_short}." if pays else f"Rent: buying {owned.in_short}.", "bold $accent")
        yield Content("")
        if row.offer is not None:
            yield from labelled("rent", LABEL, f"{choice_text(row)}; {usd_text(row.offer.usd_per_h)} $/h", width)
        yield from labelled("own", LABEL, f"{usd_text(owned.usd_per_h)} $/h around the clock over {years:g} years", width)
        yield Content("")
        for sentence in owned.sentences():
            yield from styled_lines(sentence, width, "$quiet")
        yield Content("")
        yield from styled_lines("gpu-planner report takes other years, power prices and hosting.", width, "$quiet")
