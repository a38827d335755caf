"""Right-sizing on screen: each GPU's zones, what limits it, and the actions with what they save."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from planner.units import duration_text, percent_text, usd_text
from widgets.drawing.formatting import device_name
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import bar_text
from widgets.screens.overlay import TextOverlay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.engine.advice.advice import Action, Advice, RightSizing
    from planner.engine.advice.diagnosis import Zone
    from planner.observe.snapshot import Snapshot
    from planner.session import Session
    from widgets.base_app import BaseApp

LABEL, BAR, SAVES = 16, 24, 23
ZONE_STYLES = {"low": "$text-warning", "right": "$text-success", "high": "$text-error", "unknown": "$quiet"}
GOOD_WHEN_HIGH = ("tensor", "DRAM bandwidth")
"""Near a roof is where work should be."""


def open_screen(app: BaseApp) -> None:
    """Judge what was read so far."""
    app.push_screen(RightSizeScreen(app))


class RightSizeScreen(TextOverlay):
    """The advice for the readings of the last minutes."""

    WIDTH = 132
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "dismiss", "back", show=False),
        Binding("r", "judge", "again", show=False),
        Binding("w", "workload", "with the workload", show=False),
    ]

    def __init__(self, app: BaseApp) -> None:
        super().__init__("Right-size", "esc back")
        self._planner = app
        self._with_workload = False
        self._advice: Advice | None = None
        self._detail = ""

    def on_mount(self) -> None:
        """Judge what was read so far."""
        self.action_judge()

    def action_judge(self) -> None:
        """Judge the readings there are now."""
        self.run_worker(self._judge(), exclusive=True, exit_on_error=False)

    def action_workload(self) -> None:
        """Take the workload of the form for what runs, or take that back."""
        self._with_workload = not self._with_workload
        self.action_judge()

    async def _judge(self) -> None:
        app, window = self._planner, self._planner.telemetry.window
        workload, where = app.planned
        given = dict(workload) if self._with_workload else None
        self._advice = await app.ask(lambda session: _advice(session, window, given, where))
        if not self.is_open:
            return
        badge = window[-1].badge if window else None
        seconds = window[-1].taken_at_s - window[0].taken_at_s if window else 0.0
        parts = ["Right-size", badge or "", f"the last {duration_text(seconds)}", "as if the workload ran there" if given else ""]
        with_or_without = "w without the workload" if given else "w as if the workload ran there"
        self.entitle(" · ".join(filter(None, parts)), f"r again · {with_or_without} · esc back")
        self._detail = window[-1].nvml_detail if window else "nothing was read yet"
        self.draw()

    def lines(self, width: int) -> Iterable[Content]:
        """The advice for each GPU."""
        if self._advice is None:
            return [Content.styled("judging …", "$quiet")]
        return advice_lines(self._advice, self._planner.symbols, width) if self._advice.gpus else _nothing(self._detail)


def _advice(session: Session, window: Sequence[Snapshot], workload: Mapping[str, Any] | None, where: str) -> Advice:
    from planner.observe.telemetry.window import observe

    return session.rightsize(
        observe(window, session.gpus), workload=session.workload(workload, where) if workload is not None else None
    )


def _nothing(detail: str) -> list[Content]:
    return [
        Content(f"No GPU was seen: {detail}"),
        Content.styled(
            "gpu-planner --demo shows a recording; --replay FILE shows one of yours (gpu-planner watch --record FILE).", "$quiet"
        ),
    ]


def advice_lines(advice: Advice, symbols: Symbols, room: int) -> Iterator[Content]:
    """Every line, folded to `room` cells."""
    for one in advice.gpus:
        yield from _gpu(one, symbols, room)
        yield Content("")
    if advice.together:
        yield Content.styled("Together", "bold $accent")
        for action in advice.together:
            yield from _action(action, room)
        yield Content("")
    if advice.usd_per_month is not None and len(advice.gpus) > 1:
        yield Content.styled(f"{len(advice.gpus)} GPUs cost {usd_text(advice.usd_per_month)} $ a month.", "$quiet")
    for note in advice.notes:
        yield Content.styled(_folded(note, 0, room), "$text-warning")
    if advice.prices_as_of is not None:
        yield Content.styled(f"Prices as of {advice.prices_as_of} and later; a month is 730 h.", "$quiet")


def _gpu(one: RightSizing, symbols: Symbols, room: int) -> Iterator[Content]:
    seen = one.observed
    price = one.price.text if one.price is not None else "no price known"
    yield Content.assemble((f"GPU {seen.index} · {device_name(seen.gpu)}", "bold $accent"), (f"   taken at {price}", "$quiet"))
    headline = one.judgement.headline
    yield Content.styled(_folded(headline[:1].upper() + headline[1:], 0, room), "bold")
    for zone in one.judgement.zones:
        yield _zone(zone, symbols, room)
    yield _labelled("limited by", f"{one.judgement.limiter}: {', '.join(one.judgement.because)}", room)
    held = [f"{reason} {percent_text(share)}" for reason, share in seen.held_back.items() if share >= 0.005]
    if held:
        yield _labelled("held back by", f"{', '.join(held)} of the time", room)
    if seen.lost:
        yield _labelled("lost", f"{seen.lost} of {seen.readings} readings without an answer", room)
    for words in one.judgement.cannot_know:
        yield _labelled("not known", words, room, "$quiet")
    for action in one.actions:
        yield from _action(action, room)
    if one.rent_or_buy is not None:
        yield _labelled("rent or buy", one.rent_or_buy.text, room, "$quiet")


def _labelled(label: str, text: str, room: int, style: str = "") -> Content:
    return Content.assemble((f"  {label:<{LABEL}}", "$quiet"), (_folded(text, LABEL + 2, room), style))


def _folded(text: str, indent: int, room: int) -> str:
    """`text` in lines that begin below each other, the first one's indent left to the caller."""
    return ("\n" + " " * indent).join(textwrap.wrap(text, max(20, room - indent))) or text


def _zone(zone: Zone, symbols: Symbols, room: int) -> Content:
    style = "$text-success" if zone.name in GOOD_WHEN_HIGH and zone.zone == "high" else ZONE_STYLES[zone.zone]
    bar = bar_text(min(1.0, zone.share), BAR, symbols.filled, " ") if zone.share is not None else " " * BAR
    return Content.assemble(
        (f"  {zone.name:<{LABEL}}", "$quiet"), (bar.ljust(BAR), style), f"  {_folded(zone.text, LABEL + BAR + 4, room)}"
    )


def _action(action: Action, room: int) -> Iterator[Content]:
    good = action.saves is not None and action.saves.usd_per_month > 0
    yield Content.assemble(
        (f"  {action.saving_text:<{SAVES}}", "bold $text-success" if good else "$quiet"), _folded(action.text, SAVES + 2, room)
    )
    details = [action.saves.how] if action.saves is not None else []
    for detail in (*details, *action.checks, *([action.note] if action.note else [])):
        yield Content.assemble(" " * (SAVES + 2), (_folded(detail, SAVES + 2, room), "$quiet"))
