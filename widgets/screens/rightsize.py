"""Right-sizing on screen: each GPU's zones, what limits it, and the actions with what they save."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from planner.present.machine.advice import action_details, judgement_facts, remarks
from planner.present.names import device_name
from planner.units import duration_text
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import bar_text, labelled, side_by_side, styled_lines
from widgets.screens.overlay import SCROLLS, TextOverlay

if TYPE_CHECKING:
    from planner.engine.advice.advice import Action, Advice, RightSizing
    from planner.engine.advice.diagnosis import Zone
    from planner.observe.snapshot import Snapshot
    from planner.session import Session
    from widgets.base_app import BaseApp

LABEL, BAR, SAVES = 16, 24, 23
ZONE_STYLES = {"low": "$text-warning", "right": "$text-success", "high": "$text-error", "unknown": "$quiet"}
GOOD_WHEN_HIGH = ("SM active", "tensor", "DRAM traffic")
"""Near a roof is where work should be, and a GPU without idle multiprocessors is no fault."""
QUIET = {"watched": "$quiet", "not known": "$quiet"}
"""Styles of what is less important."""


def open_screen(app: BaseApp) -> None:
    """Judge what was read so far."""
    app.push_screen(RightSizeScreen(app))


class RightSizeScreen(TextOverlay):
    """Advice for the readings of the last minutes."""

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
        parts = ["Right-size", badge or "", f"the last {duration_text(seconds)}", "assume the workload runs there" if given else ""]
        with_or_without = "w without the workload" if given else "w assume the workload runs there"
        self.entitle(" · ".join(filter(None, parts)), f"r again · {with_or_without} · {SCROLLS}esc back")
        self._detail = window[-1].nvml_detail if window else "nothing was read yet"
        self.draw()

    def lines(self, width: int) -> Iterable[Content]:
        """Advice for each GPU."""
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
        Content(f"No GPU here. {detail}"),
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
        yield from _actions(advice.together, room)
        yield Content("")
    for remark in remarks(advice):
        yield from styled_lines(remark, room, "$text-warning" if remark in advice.notes else "$quiet")


def _gpu(one: RightSizing, symbols: Symbols, room: int) -> Iterator[Content]:
    seen, judgement = one.observed, one.judgement
    zones = {zone.name: zone for zone in judgement.zones}
    yield Content.styled(f"GPU {seen.index} · {device_name(seen.gpu)}", "bold $accent")
    yield from styled_lines(judgement.headline[:1].upper() + judgement.headline[1:], room, "bold")
    for fact in judgement_facts(one):
        zone = zones.get(fact.label)
        if zone is not None:
            yield from _zone(zone, symbols, room)
        else:
            yield from labelled(f"  {fact.label}", LABEL + 2, fact.aside, room, QUIET.get(fact.label, ""))
    yield from _actions(one.actions, room)
    if one.rent_or_buy is not None:
        yield from labelled("  rent or buy", LABEL + 2, one.rent_or_buy.text, room, "$quiet")


def _zone(zone: Zone, symbols: Symbols, room: int) -> list[Content]:
    style = "$text-success" if zone.name in GOOD_WHEN_HIGH and zone.zone == "high" else ZONE_STYLES[zone.zone]
    bar = bar_text(min(1.0, zone.share) if zone.share is not None else None, BAR, symbols.filled, symbols.empty)
    head = Content.assemble((f"  {zone.name:<{LABEL}}", "$quiet"), (bar, style))
    left = LABEL + BAR + 4
    return side_by_side([([head], left), (styled_lines(zone.text, room - left), 0)])


def _actions(actions: Iterable[Action], room: int) -> Iterator[Content]:
    for action in actions:
        good = action.saves is not None and action.saves.usd_per_month > 0
        style = "bold $text-success" if good else "$quiet"
        yield from labelled(f"  {action.saving_text}", SAVES + 2, action.text, room, "", style)
        for detail in action_details(action):
            yield from labelled("", SAVES + 2, detail, room, "$quiet")
