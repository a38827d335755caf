"""The terminal program: puts the panes together and carries messages between them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.containers import Container
from textual.markup import escape
from textual.screen import Screen
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from widgets import crash_report
from widgets.actions import conditions as need
from widgets.actions.action import bindings
from widgets.actions.conditions import NO_PLAN
from widgets.actions.narrowing import count_all, show_answer, show_chips, take_gpu, use_filter
from widgets.actions.program import PALETTE, use_theme
from widgets.actions.registry import ACTIONS, BY_ID, GROUPS
from widgets.actions.sessions import described, open_session
from widgets.actions.workload import open_named, plan_model
from widgets.background.planning import PlanReady, PlanRefused
from widgets.background.telemetry import SnapshotRead
from widgets.base_app import BaseApp
from widgets.drawing import theme
from widgets.panes.answer import AnswerLine
from widgets.panes.clickable import Clickable
from widgets.panes.frame import PANES, Frame
from widgets.panes.headline import Headline
from widgets.panes.key_line import KeyLine
from widgets.panes.tabs import Tabs
from widgets.panes.too_small import LEAST_HEIGHT, LEAST_WIDTH
from widgets.state import state_files

if TYPE_CHECKING:
    from widgets.background.benchmark import RunChanged
    from widgets.panes.ranking.table import Ranking
    from widgets.panes.workload.form import Form

WIDTHS = [(0, "-thin"), (LEAST_WIDTH, "-narrow"), (100, "-normal"), (120, "-docked"), (133, "-wide")]
HEIGHTS = [(0, "-low"), (LEAST_HEIGHT, "-short"), (28, "-medium"), (36, "-regular"), (44, "-tall")]
"""Least cells and rows -> the class of a screen that has them."""


class _PanesScreen(Screen[Any]):
    """The screen with the panes, whose key line names the keys that work while a box lies over them."""

    @on(events.ScreenResume)
    def _shown(self, event: events.ScreenResume) -> None:
        """Leave out Textual's second styling as the screen is shown for the first time: its widgets were styled as they were mounted."""
        event.refresh_styles = event.refresh_styles and self.stack_updates > 0

    @on(events.ScreenSuspend)
    @on(events.ScreenResume)
    def _covered_or_not(self) -> None:
        """A box was opened or closed; there is no key line yet as the screen is shown for the first time."""
        for line in self.query(KeyLine):
            line.draw()


class PlannerApp(BaseApp):
    """gpu-planner."""

    TITLE = "gpu-planner"
    CSS_PATH = "app.tcss"
    AUTO_FOCUS = "#table"
    ACTION_GROUPS = GROUPS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(action for action in ACTIONS if action.scope == "app")]
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def get_default_screen(self) -> Screen[Any]:
        """The screen with the classes of its size, which Textual adds after a first layout without them."""
        screen = _PanesScreen(id="_default")
        for cells, breakpoints in zip(self.size, (WIDTHS, HEIGHTS), strict=True):
            screen.add_class(max(one for one in breakpoints if one[0] <= cells)[1], update=False)  # styled as it is mounted
        return screen

    def compose(self) -> ComposeResult:
        """Frames of the panes; their content comes once the screen is up."""
        yield Headline(symbols=self.symbols)
        yield AnswerLine(symbols=self.symbols)
        yield Tabs()
        with Container(id="body"):
            with Container(id="main", classes="group -active"):
                with Container(id="top", classes="group -active"):
                    yield Frame("workload")
                    yield Frame("ranking", active=True)
                    yield Frame("why")
                yield Frame("memory")
            with Container(id="side", classes="group"):
                yield Frame("machine")
                yield Frame("benchmark")
        yield KeyLine(ACTIONS, self.state_of, self._note_of_field, lambda: bool(self.filter_text) or self.zoomed)

    def _note_of_field(self) -> str:
        """Accepted input where the cursor is; empty outside the form."""
        if self.focused is not None and self.focused.id == "filter":
            return "GPUs, providers, a market; $/h<5, sure>90; enter goes to the rows"
        return self.form.about if self.ready else ""

    def on_mount(self) -> None:
        """Put the cursor into the ranking; everything that takes time comes after the first paint."""
        self.refresh_tabs()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """Work after the first paint: the content of the panes, the first plan, this machine."""
        from widgets.start import begin

        self.run_worker(begin(self), group="open", exit_on_error=False)

    def on_unmount(self) -> None:
        """Leave nothing running."""
        self.telemetry.stop()
        if self.benchmark is not None:
            self.benchmark.kill()
        self.session_thread.close()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Make the pane of the focused widget the active one."""
        if self.leaving:
            return
        name = next((node.id for node in event.widget.ancestors_with_self if node.id in PANES), None)
        if name is not None and name != self.active_pane:
            self.show_pane(name, focus=False)
        self.refresh_keys()

    # actions

    def action_help_quit(self) -> None:
        """Name the key that leaves: the key that leaves other programs copies here."""
        self.notify(f"{self.state_of(BY_ID['quit']).keys} leaves the program.", timeout=3)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow nothing but leaving on a screen that is too small."""
        if action == "act" and {"-thin", "-low"} & self.main.classes:
            return parameters == ("quit",)
        return super().check_action(action, parameters)

    def action_act(self, name: str) -> None:
        """Run the action of this id, or say why it cannot be run now."""
        action = BY_ID[name]
        reason = action.why_not(self)
        waits = reason is None and need.a_row in action.needs and self.rows_outdated
        self.awaited = name if waits or reason == NO_PLAN else ""
        if waits:
            return
        if reason is not None:
            if not any(note.message == reason for note in self._notifications):
                self.notify(reason, severity="warning", timeout=3)
            return
        work = action.run(self) if action.run is not None else None
        if work is not None:
            self.run_worker(work, group=f"act-{name}", exit_on_error=False)
        self.refresh_keys()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every action, preset and theme by name; what Textual would read as markup is escaped."""
        del screen
        for action in ACTIONS:
            if action.scope == "app" and action.id != "back":
                state = self.state_of(action)
                words = f"{state.keys} · {action.description}" if state.reason is None else f"not now · {state.reason}"
                name = f"go to {action.label}" if action.id.startswith("pane-") else state.label
                yield SystemCommand(name.capitalize(), escape(words), partial(self.action_act, action.id))
        for item in self.panes.form.presets if self.panes is not None else ():
            yield SystemCommand(escape(f"Preset: {item.value}"), escape(item.detail), partial(open_named, self, item.value))
        for name in state_files.session_names(self.options.state) if self.panes is not None else ():
            yield SystemCommand(escape(f"Session: {name}"), escape(described(self, name)), partial(open_session, self, name))
        for name in dict.fromkeys(self.facet_names.gpus.values()) if self.panes is not None else ():
            yield SystemCommand(escape(f"GPU: {name}"), "Look at it alone", partial(take_gpu, self, name))
        for item in self.panes.form.models if self.panes is not None else ():
            yield SystemCommand(escape(f"Model: {item.value}"), escape(item.detail), partial(plan_model, self, item.value))
        for name in theme.NAMES:
            yield SystemCommand(f"Theme: {name}", "Change the colours", partial(use_theme, self, name))

    # messages; those that come before the panes have their content, or while they go, are dropped

    def on_form_changed(self, event: Form.Changed) -> None:
        """Plan the workload as it stands now."""
        if not self.ready:
            return
        if self.form.faults:
            self._tell_faults()
        else:
            self.ask_for_plan(event.workload)
        self.refresh_headline()

    def _tell_faults(self) -> None:
        """Say that a field is invalid, and that the rows answer the workload before."""
        self.content.show_problems(())
        self.main.query_one(AnswerLine).refuse("not planned: a field is invalid")

    def on_form_wanted(self, event: Form.Wanted) -> None:
        """Open the preset, or plan the model, chosen in the form."""
        (open_named if event.what == "preset" else plan_model)(self, event.name)

    @on(Clickable.Chosen)
    def _clicked(self, event: Clickable.Chosen) -> None:
        if event.action == PALETTE:
            self.action_command_palette()
        else:
            self.action_act(event.action)

    @on(PlanReady)
    def _plan_ready(self, event: PlanReady) -> None:
        if not self.ready:
            return
        self.plan = event.plan
        if self.trial is not None:
            self.trial = self.trial.compared(event.plan)
        self.planned = dict(event.workload), str(self.preset.path) if self.preset else ""
        if not self.facets.changes:
            self.whole = dict(event.workload), event.plan.counts.fit
        with self.batch_update():
            self.content.show_plan(event.plan, event.basis)
            show_answer(self)
            if self.form.faults:  # typed while it was planned
                self._tell_faults()
            show_chips(self)
            if self.benchmark is not None:
                self.benchmark.compare(event.plan)
            self.refresh_headline()
            self.refresh_keys()
        for warning in event.warnings:
            if warning not in self.warned:
                self.warned.add(warning)
                self.notify(warning, title="Measurements", severity="warning", timeout=10, markup=False)
        self.run_worker(count_all(self), group="count", exit_on_error=False)
        if self.awaited:
            self.take_back(NO_PLAN)
        if self.awaited and self.screen is self.main and not self.rows_outdated:
            awaited, self.awaited = self.awaited, ""
            self.call_after_refresh(self.action_act, awaited)

    @on(PlanRefused)
    def _plan_refused(self, event: PlanRefused) -> None:
        self.asked, awaited = self.planned, self.awaited
        self.awaited = ""
        if awaited and self.plan is not None and self.screen is self.main:  # of the rows that stay
            self.call_after_refresh(self.action_act, awaited)
        if self.ready:
            from planner.present.labels import problem_text

            self.content.show_problems(event.problems)
            self.main.query_one(AnswerLine).refuse(problem_text(event.problems[0]))
            self.refresh_headline()

    def on_ranking_highlighted(self, event: Ranking.Highlighted) -> None:
        """Show the memory and the reason of the row."""
        if self.ready:
            self.content.show_row(event.row, self.plan)
            self.details.look_into(event.row)
            self.call_after_refresh(self._show_beside_row)

    def _show_beside_row(self) -> None:
        """Price's date and the keys of the row, once the row itself is drawn."""
        self.refresh_headline()
        self.refresh_keys()

    def on_ranking_opened(self) -> None:
        """Open the reasons of the row."""
        self.action_act("why")

    def on_ranking_arranged(self) -> None:
        """Show the order and the filter."""
        if self.ready and self.plan is not None:
            self.content.ranking.title(self.plan, self.basis)

    @on(Input.Changed, "#filter")
    def _filter_typed(self, event: Input.Changed) -> None:
        use_filter(self, event.input.value)  # what it holds now: escape may have emptied it meanwhile

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.show_pane("ranking")

    @on(Input.Blurred, "#filter")
    def _filter_left(self, event: Input.Blurred) -> None:
        event.input.display = False  # the chips below it say what it asks for

    @on(SnapshotRead)
    def _snapshot(self, event: SnapshotRead) -> None:
        if self.ready:
            self.content.show_snapshot(event.snapshot)
            self._make_room()

    def _make_room(self) -> None:
        """Give the ranking the screen rows of the panes below that are empty: no GPU is watched, and no benchmark was run."""
        snapshot = self.content.machine.snapshot
        idle = self.benchmark is None or self.benchmark.run.state == "idle"
        self.main.set_class(idle and snapshot is not None and not snapshot.devices, "-quiet")

    def on_run_changed(self, event: RunChanged) -> None:
        """Show the progress of the benchmark; a new measurement leads to a new plan."""
        if not self.ready or self.benchmark is None:
            return
        self.content.show_run(event.run, self.benchmark.marks)
        self._make_room()
        self.telemetry.thin(self.benchmark.timing)
        self.refresh_tabs()
        self.refresh_keys()
        if event.measured:
            self.ask_for_plan(self.form.workload)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Report a fault of the program, and go on."""
        if event.state is WorkerState.ERROR and not self.leaving:
            self.asked = self.planned  # what was asked for may never be answered
            crash_report.report(self, event.worker.error)
