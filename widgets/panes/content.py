"""Content of the panes, put in once the screen is up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from textual.screen import Screen

from planner.engine.answers.plan import Plan, PlanRow
from planner.errors import Problem
from planner.observe.snapshot import Snapshot
from planner.present.labels import problem_text
from widgets.background.benchmark_run import Run
from widgets.drawing.symbols import Symbols
from widgets.panes.benchmark import BenchmarkView
from widgets.panes.machine.history import Marks
from widgets.panes.machine.pane import MachineLine, MachineView
from widgets.panes.memory import MemoryStrip, MemoryView
from widgets.panes.ranking.pane import RankingView
from widgets.panes.too_small import TooSmall
from widgets.panes.why import WhyView
from widgets.panes.workload.form import Form

STYLES = Path(__file__).parents[1] / "later.tcss"


class Panes:
    """Widgets in the frames, and what is shown in several of them at once."""

    def __init__(self, symbols: Symbols) -> None:
        self.form = Form(symbols=symbols)
        self.ranking = RankingView(symbols=symbols)
        self.why = WhyView(symbols=symbols)
        self.memory = MemoryView(symbols=symbols)
        self.strip = MemoryStrip(symbols=symbols)
        self.machine = MachineView(symbols=symbols)
        self.machine_line = MachineLine(self.machine)
        self.benchmark = BenchmarkView(symbols=symbols)
        self._shown: tuple[PlanRow | None, Plan | None] | None = None

    async def mount(self, screen: Screen[Any]) -> None:
        """Put everything into its frame, with the styles of it and of all that comes later."""
        screen.app.stylesheet.read(STYLES)
        await screen.query_one("#ranking").mount(self.ranking)
        await screen.query_one("#workload").mount(self.form)
        await screen.query_one("#why").mount(self.why)
        await screen.query_one("#memory").mount(self.memory)
        await screen.query_one("#machine").mount(self.machine)
        await screen.query_one("#benchmark").mount(self.benchmark)
        await screen.mount(self.strip, self.machine_line, before="#key-line")
        await screen.mount(TooSmall())

    def show_plan(self, plan: Plan, basis: str) -> None:
        """Show a new plan: its rows, the highlighted one of them, and in the form what was chosen for empty fields."""
        self.form.show_problems(())
        self.form.filled_in(plan.task)
        self.ranking.show(plan, basis)
        self.show_row(self.ranking.table.highlighted, plan)

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Show what is wrong with the workload, at its fields; the last plan stays, marked stale."""
        elsewhere = self.form.show_problems(problems)
        count = len(problems) + len(self.form.faults)
        words = [problem_text(problem) for problem in elsewhere[:2]]
        summary = f"{count} field{'s' * (count != 1)} to correct; the rows show the previous workload."
        self.ranking.refuse(words or [summary])

    def show_row(self, row: PlanRow | None, plan: Plan | None) -> None:
        """Show the reason and the memory of the highlighted row, unless they are shown."""
        if self._shown is not None and self._shown[0] is row and self._shown[1] is plan:
            return
        self._shown = row, plan
        self.ranking.explain(row, plan)
        self.why.show(row, plan)
        self.memory.show(row, plan)
        self.strip.show_row(row)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show one reading of this machine."""
        self.machine.show(snapshot)
        self.machine_line.draw()

    def show_run(self, run: Run, marks: Marks) -> None:
        """Show how far the benchmark is, and below the histories when its points began and ended."""
        self.benchmark.show(run)
        self.machine.mark(marks)
