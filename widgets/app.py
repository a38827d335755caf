"""The terminal program: puts the panes together and carries messages between them."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events, on
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from widgets import crash_report, state_files, views
from widgets.actions import doing
from widgets.actions.registry import PANES, Action, bindings
from widgets.background.planning import PlanLoop, PlanReady, PlanRefused, SessionThread
from widgets.background.telemetry import SnapshotRead, Watching
from widgets.drawing import theme
from widgets.drawing.symbols import ASCII, UNICODE
from widgets.options import AppOptions
from widgets.panes import headline
from widgets.panes.frame import Frame
from widgets.panes.lines import Clickable, Headline, KeyLine, KeyState, Tabs

if TYPE_CHECKING:
    from textual.driver import Driver
    from textual.notifications import SeverityLevel

    from planner.ceilings_cache import BasisChoice
    from planner.engine.answers.plan import Plan
    from planner.workload.presets import Preset
    from widgets.background.benchmark import Measuring, RunChanged
    from widgets.panes.ranking.table import Ranking
    from widgets.panes.workload.form import Form


LEAST_WIDTH, LEAST_HEIGHT = 60, 18
FOCUS = {"ranking": "#table", "memory": "#memory-view", "machine": "#machine-view", "benchmark": "#points"}
"""What has the focus in a pane; the form remembers its own field."""


class PlannerApp(App[None]):
    """gpu-planner."""

    TITLE = "gpu-planner"
    CSS_PATH = "app.tcss"
    AUTO_FOCUS = "#table"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("app")]
    HORIZONTAL_BREAKPOINTS = [(0, "-thin"), (LEAST_WIDTH, "-narrow"), (100, "-normal"), (160, "-wide"), (190, "-vast")]  # noqa: RUF012  (as Textual declares it)
    VERTICAL_BREAKPOINTS = [(0, "-low"), (LEAST_HEIGHT, "-short"), (32, "-regular"), (44, "-tall")]  # noqa: RUF012  (as Textual declares it)
    SINGLE: ClassVar[frozenset[str]] = frozenset({"-narrow", "-short", "-zoomed"})
    """Screen classes under which one pane is shown at a time."""

    def __init__(self, options: AppOptions | None = None) -> None:
        self.options = options or AppOptions()
        super().__init__(ansi_color=None if self.options.colour else True)
        self.symbols = ASCII if self.options.ascii_only else UNICODE
        self.session_thread = SessionThread(self.options.session)
        self.plan_loop = PlanLoop(self.session_thread, self.post_message)
        self.plan: Plan | None = None
        self.planned: tuple[dict[str, Any], str] = {}, ""
        """The workload that `plan` answers, and the file it came from."""
        self.preset: Preset | None = None
        self.preset_fields: dict[str, Any] = {}
        self.basis: BasisChoice = "measured"
        self.here = ""
        """The devices of this machine, in words."""
        self.active_pane = "ranking"
        self.keymap: dict[str, str] = dict(self.options.keymap)
        """Action id -> keys, where the user remapped them."""
        self.watching = Watching(
            self.post_message, self.options.telemetry_interval_s, replay=self.options.replay, demo=self.options.demo
        )
        self.measuring: Measuring | None = None
        """There once the panes have their content."""
        if self.options.ascii_only:
            from widgets.plain_output import write_ascii_only

            write_ascii_only(self)
        theme.register(self)
        self.choices = state_files.load(self.options.state)
        self.theme = theme.first(self.options.theme, self.choices.get("theme"), colour=self.options.colour)

    def compose(self) -> ComposeResult:
        """The panes; their content comes once the screen is up."""
        yield Headline()
        yield Tabs()
        with Container(id="body"):
            with Container(id="main", classes="group -active"):
                with Container(id="top", classes="group -active"):
                    yield Frame("workload")
                    yield Frame("ranking", active=True)
                yield Frame("memory")
            with Container(id="side", classes="group"):
                yield Frame("machine")
                yield Frame("benchmark")
        yield KeyLine(state_of=self.key_state, note_of=self.note_of_field)

    # what the screen is, and where the user is on it

    @property
    def main(self) -> Screen[Any]:
        """The screen with the panes, whatever lies on top of it."""
        return self.screen_stack[0]

    @property
    def table(self) -> Ranking:
        """The ranking's rows."""
        return cast("Ranking", self.main.query_one("#table"))

    @property
    def form(self) -> Form:
        """The workload form."""
        return cast("Form", self.main.query_one("#form"))

    @property
    def single(self) -> bool:
        """Whether one pane is shown at a time."""
        return bool(self.SINGLE & self.main.classes)

    @property
    def leaving(self) -> bool:
        """Whether the panes are going, or gone: what threads still tell has no place on the screen any more."""
        return not self.is_running or not self.screen_stack or not self.main.is_attached

    @property
    def measures(self) -> bool:
        """Whether a benchmark runs."""
        return self.measuring is not None and self.measuring.running

    @property
    def too_small(self) -> bool:
        """Whether there is no room to draw."""
        return bool({"-thin", "-low"} & self.main.classes)

    def get_driver_class(self) -> type[Driver]:
        """Textual's driver, on Unix with an input that ends at once."""
        driver = super().get_driver_class()
        if sys.platform == "win32" or driver.__module__ != "textual.drivers.linux_driver":
            return driver
        from widgets.terminal import PromptDriver

        return PromptDriver

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colour names for themes that do not set them."""
        return theme.defaults(self.theme)

    def on_mount(self) -> None:
        """Put the cursor into the ranking; everything that takes time comes after the first paint."""
        self.refresh_tabs()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """What the first paint does without: the content of the panes, the first plan, this machine."""
        from widgets import opening

        self.run_worker(opening.begin(self), group="open", exit_on_error=False)

    def on_unmount(self) -> None:
        """Leave nothing running."""
        self.watching.stop()
        if self.measuring is not None:
            self.measuring.kill()
        self.session_thread.close()

    def show_pane(self, name: str, *, focus: bool = True) -> None:
        """Make a pane the active one."""
        self.active_pane = name
        pane = self.main.query_one(f"#{name}")
        lit = set(pane.ancestors_with_self)
        for node in self.main.query(".pane, .group"):
            node.set_class(node in lit, "-active")
        self.refresh_tabs()
        if focus:
            target = self.form.first_field if name == "workload" else self.main.query_one(FOCUS[name])
            target.focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The pane of the focused widget is the active one."""
        if self.leaving:
            return
        name = next((node.id for node in event.widget.ancestors_with_self if node.id in PANES), None)
        if name is not None and name != self.active_pane:
            self.show_pane(name, focus=False)
        self.refresh_keys()

    def refresh_tabs(self) -> None:
        """Draw the tabs again."""
        progress = self.measuring.run.progress_text if self.measuring is not None else ""
        self.main.query_one(Tabs).show(self.active_pane, progress)

    def refresh_keys(self) -> None:
        """Draw the key line again."""
        self.main.query_one(KeyLine).draw()

    def refresh_headline(self) -> None:
        """Say again what is planned and on what."""
        if self.preset is not None:
            today = self.options.today or dt.date.today()  # noqa: DTZ011  (the user's own calendar)
            task = self.form.workload if self.plan is None else self.plan.task
            self.main.query_one(Headline).show(*headline.parts(self.preset.name, task, self.plan, self.here, today))

    # actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """On a screen that is too small only leaving works."""
        if action == "act" and self.too_small:
            return parameters == ("quit",)
        return super().check_action(action, parameters)

    def action_act(self, name: str) -> None:
        """Do what the action of this id does, or say why it cannot be done now."""
        reason = doing.why_not(self, name)
        if reason is not None:
            if not any(note.message == reason for note in self._notifications):
                self.notify(reason, severity="warning", timeout=3)
            return
        work = doing.DO[name](self)
        if work is not None:
            self.run_worker(work, group=f"act-{name}", exit_on_error=False)
        self.refresh_keys()

    def key_state(self, action: Action) -> KeyState:
        """An action as it stands now."""
        keys = self.keymap.get(action.id, action.key_text)
        return KeyState(action, keys, doing.label(self, action), doing.why_not(self, action.id) is None)

    def note_of_field(self) -> str:
        """What may be typed where the cursor is; empty outside the form."""
        forms = self.main.query("#form")
        return cast("Form", forms.first()).about if forms else ""

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Say something in passing; what is said may hold brackets, which are no markup here."""
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every action, preset and theme by name."""
        del screen
        return doing.palette(self)

    # messages

    def ask_for_plan(self, workload: Mapping[str, Any]) -> None:
        """Plan this workload; the answer comes as a message."""
        where = str(self.preset.path) if self.preset else ""
        self.run_worker(self.plan_loop.ask(dict(workload), where, self.basis), group="plan", exit_on_error=False)

    def on_form_changed(self, event: Form.Changed) -> None:
        """Plan the workload as it stands now."""
        if self.leaving:
            return
        if self.form.has_faults:
            self._plan_refused(PlanRefused(()))
        else:
            self.ask_for_plan(event.workload)

    def on_form_preset_chosen(self, event: Form.PresetChosen) -> None:
        """Open the preset chosen in the form."""
        from widgets import opening

        self.run_worker(opening.open_preset(self, event.name), group="preset", exclusive=True, exit_on_error=False)

    @on(Clickable.Chosen)
    def _clicked(self, event: Clickable.Chosen) -> None:
        if event.action == "palette":
            self.action_command_palette()
        else:
            self.action_act(event.action)

    @on(PlanReady)
    def _plan_ready(self, event: PlanReady) -> None:
        if self.leaving:
            return
        self.plan, self.planned = event.plan, (dict(event.workload), str(self.preset.path) if self.preset else "")
        with self.batch_update():
            views.show_plan(self, event.plan, event.basis)
            self.refresh_headline()
            self.refresh_keys()

    @on(PlanRefused)
    def _plan_refused(self, event: PlanRefused) -> None:
        if not self.leaving:
            views.show_problems(self, event.problems)

    def on_ranking_highlighted(self, event: Ranking.Highlighted) -> None:
        """Show the memory and the reason of the row."""
        if not self.leaving:
            views.show_row(self, event.row)

    def on_ranking_opened(self) -> None:
        """Why this row."""
        self.action_act("why")

    def on_ranking_arranged(self) -> None:
        """Say the order and the filter."""
        if not self.leaving:
            views.show_order(self)

    @on(Input.Changed, "#filter")
    def _filter_typed(self, event: Input.Changed) -> None:
        self.table.filter(event.value)

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.show_pane("ranking")

    @on(SnapshotRead)
    def _snapshot(self, event: SnapshotRead) -> None:
        if not self.leaving:
            views.show_snapshot(self, event.snapshot)

    def on_run_changed(self, event: RunChanged) -> None:
        """Show how far the benchmark is; a new measurement asks for a new plan."""
        if self.leaving:
            return
        views.show_run(self, event.run)
        self.refresh_tabs()
        self.refresh_keys()
        if event.measured:
            self.ask_for_plan(self.form.workload)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault of the program is said and survived."""
        if event.state is WorkerState.ERROR and not self.leaving:
            crash_report.report(self, event.worker.error)
