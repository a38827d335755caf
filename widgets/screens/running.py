"""Roofline of the watched GPUs with their running jobs as points that move."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from widgets.base_app import BaseApp
from widgets.screens.decisions.turning import Turn, TurningScreen, turn_bindings

if TYPE_CHECKING:
    from planner.engine.advice.observation import Observed
    from planner.engine.advice.running_point import Running
    from planner.observe.snapshot import Snapshot
    from planner.present.cells import Section
    from planner.session import Session

LOOK_S = 1.0
"""Interval at which new readings are looked for."""
NOW, EARLIER = 5, 10
"""Readings that make the point of now, and each of the points before it."""
TURNS = (Turn("d", "dtype", ("bf16", "fp16", "fp8", "tf32", "fp32")),)


def open_screen(app: BaseApp) -> None:
    """Show the GPUs at work."""
    app.push_screen(RunningScreen(app))


class RunningScreen(TurningScreen):
    """A chart for each GPU, drawn again with every reading."""

    WIDTH = 132
    TURNS = TURNS
    BINDINGS: ClassVar[list[BindingType]] = [*turn_bindings(TURNS), Binding("V", "dismiss", "back", show=False)]

    def __init__(self, app: BaseApp) -> None:
        window = app.telemetry.window
        badge = window[-1].badge if window else None
        super().__init__(app, " · ".join(filter(None, ("Running now on the roofline", badge))))
        self._drawn_at = 0.0

    def on_mount(self) -> None:
        """Draw again with every reading; the first time is the base's."""
        self.run_worker(self._follow(), group="follow", exit_on_error=False)

    async def _follow(self) -> None:
        while self.is_open:
            await asyncio.sleep(LOOK_S)
            window = self._planner.telemetry.window
            if window and window[-1].taken_at_s != self._drawn_at:
                await self._ask()

    async def sections(self, chosen: Mapping[str, str]) -> Sequence[Section]:
        """Point and roofs of each GPU."""
        from planner.present.machine.running import running_sections

        window, basis = self._planner.telemetry.window, self._planner.basis
        found = await self._planner.ask(lambda session: _running(session, window, chosen["dtype"], basis))
        self._drawn_at = window[-1].taken_at_s if window else 0.0
        return running_sections(found)


def _running(session: Session, window: Sequence[Snapshot], dtype: str, basis: str) -> list[Running]:
    """GPUs of the last readings, with a point for each stretch of the ones before."""
    from planner.engine.advice.running_point import running
    from planner.observe.telemetry.window import observe

    earlier, now = window[:-NOW], window[-NOW:]
    before: list[Observed] = []
    for begin in range(0, len(earlier), EARLIER):
        before += observe(earlier[begin : begin + EARLIER], session.gpus)
    chips = session.ceilings_cache.chips("spec" if basis == "spec" else "measured")
    return running(observe(now, session.gpus), before, dtype, session.part_named, chips)
