"""State of the app: options, session, plan, panes. Actions, screens and panes get this class, never the app that routes to them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual import events
from textual.screen import Screen

from widgets.actions.action import Action, ActionState
from widgets.background.opened import PlanQuestion
from widgets.background.planning import PlanLoop, SessionThread
from widgets.background.row_details import RowDetails
from widgets.background.telemetry import TelemetryWatch
from widgets.drawing import scroll_bar, theme
from widgets.drawing.symbols import ASCII, KEYS_IN_WORDS, UNICODE
from widgets.options import AppOptions
from widgets.panes.answer import AnswerLine
from widgets.panes.headline import Headline, headline_parts
from widgets.panes.key_line import KeyLine
from widgets.panes.tabs import Tabs
from widgets.plain_output import filter_output
from widgets.state import state_files
from widgets.textual_quirks import MendedApp

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from planner.ceilings_cache import BasisChoice
    from planner.engine.answers.plan import Plan, PlanRow
    from planner.present.choice.facets import FacetNames, Facets
    from planner.present.choice.trial import Trial
    from planner.session import Session
    from planner.workload.presets import Preset
    from planner.workload.tasks import Workload
    from widgets.background.benchmark import BenchmarkRunner
    from widgets.panes.content import Panes
    from widgets.panes.ranking.table import Ranking
    from widgets.panes.workload.form import Form

Answer = TypeVar("Answer")
FOCUS = {"ranking": "#table", "memory": "#memory-view", "machine": "#machine-view", "benchmark": "#points"}
"""Focus of a pane; the form remembers its own field."""


class BaseApp(MendedApp):
    """State of the program, and its interface for actions and screens."""

    ACTION_GROUPS: ClassVar[Mapping[str, Sequence[Action]]] = {}
    """Heading in the help -> its actions."""
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
        """Workload that `plan` answers, and the file it came from."""
        self.asked: tuple[dict[str, Any], str] = {}, ""
        """Workload that was asked for last, and the file it came from."""
        self.preset: Preset | None = None
        self.preset_fields: dict[str, Any] = {}
        self.basis: BasisChoice = "measured"
        self.facet_names: FacetNames
        self.filter_text = ""
        self.facets: Facets
        """Filter of the search and the rows, as read; there with the content of the panes."""
        self.whole: tuple[dict[str, Any], int] | None = None
        """A workload, and how many candidates for it fit without any filter."""
        self.trial: Trial | None = None
        """A change that is tried out."""
        self.awaited = ""
        """Id of an action that was asked for before there was a plan, and follows with it."""
        self.warned: set[str] = set()
        """Notice given to the user about the measurements."""
        self.here = ""
        """Devices of this machine, in words."""
        self.active_pane = "ranking"
        self.keymap: dict[str, str] = dict(self.options.keymap)
        """Action id -> keys, where the user remapped them."""
        self.telemetry = TelemetryWatch(
            self.post_message, self.options.telemetry_interval_s, replay=self.options.replay, demo=self.options.demo
        )
        self.details = RowDetails(self)
        self.benchmark: BenchmarkRunner | None = None
        self.panes: Panes | None = None
        """There once their content is on the screen."""
        filter_output(self, ascii_only=self.options.ascii_only)
        scroll_bar.use(ascii_only=self.options.ascii_only)
        theme.register(self)
        self.choices = state_files.load_choices(self.options.state)
        self.begin_with_theme(theme.first(self.options.theme, self.choices.get("theme"), colour=self.options.colour))

    # what the screen is, and where the user is on it

    @property
    def main(self) -> Screen[Any]:
        """The screen with the panes, whatever lies on top of it."""
        return self.screen_stack[0]

    @property
    def content(self) -> Panes:
        """Panes' content; raises RuntimeError before they have any."""
        if self.panes is None:
            raise RuntimeError("the panes have no content yet")
        return self.panes

    @property
    def table(self) -> Ranking:
        """Ranking's rows."""
        return self.content.ranking.table

    @property
    def form(self) -> Form:
        """Workload form."""
        return self.content.form

    @property
    def zoomed(self) -> bool:
        """True if the user gave the whole screen to one pane."""
        return self.main.has_class("-zoomed")

    @property
    def single(self) -> bool:
        """True if one pane is shown at a time."""
        return bool(self.SINGLE & self.main.classes)

    def exit(self, *given: Any, **named: Any) -> None:
        """Leave, and save the screen for the next start."""
        from widgets.state.saved_screen import save_screen

        save_screen(self)
        super().exit(*given, **named)

    @property
    def modified(self) -> bool:
        """True if the form holds something else than the preset."""
        return self.panes is not None and self.preset is not None and dict(self.form.workload) != self.preset_fields

    @property
    def ready(self) -> bool:
        """True if the panes have their content; messages that come earlier or later are dropped."""
        return self.panes is not None and not self.leaving

    @property
    def rows_outdated(self) -> bool:
        """True if the rows are for another workload than the newest one."""
        return self.asked != self.planned

    @property
    def leaving(self) -> bool:
        """True if the panes are going, or gone."""
        return not self.is_running or not self.screen_stack or not self.main.is_attached

    @property
    def benchmark_runs(self) -> bool:
        """True if a benchmark runs."""
        return self.benchmark is not None and self.benchmark.running

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colour names for themes that do not set them."""
        return theme.defaults(self.theme)

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

    def refresh_tabs(self) -> None:
        """Draw the tabs again."""
        progress = self.benchmark.run.progress_text if self.benchmark is not None else ""
        self.main.query_one(Tabs).show(self.active_pane, progress)

    def refresh_keys(self) -> None:
        """Draw the key line again."""
        self.main.query_one(KeyLine).draw()

    def refresh_headline(self) -> None:
        """Draw the headline again: what is planned, and on what."""
        if self.preset is not None:
            today = self.options.today or dt.date.today()  # noqa: DTZ011  (the user's own calendar)
            task = self.form.workload if self.plan is None else self.plan.task
            name = f"{self.preset.name} · modified" if self.modified else self.preset.name
            row = self.table.highlighted if self.panes is not None else None
            before = self.main.query_one(AnswerLine).is_of_before
            self.main.query_one(Headline).show(*headline_parts(name, task, self.plan, row, self.here, today), of_before=before)

    # what actions and screens ask for

    async def ask(self, question: Callable[[Session], Answer]) -> Answer:
        """Session's answer to `question`, worked out away from the screen; raises what that raises."""
        return await self.session_thread.ask(question)

    async def ask_of_plan(self, question: Callable[[Session, Workload], Answer]) -> Answer:
        """Session's answer about the workload that was planned last; raises what that raises."""
        workload, where = self.planned
        return await self.session_thread.ask(lambda session: question(session, session.workload(workload, where)))

    async def search(self, question: Callable[..., Answer], *rows: PlanRow) -> Answer:
        """Answer to a question of `widgets.background.questions` about the workload that was planned last; raises what that raises."""
        return await self.session_thread.search(question, PlanQuestion(*self.planned, self.basis), *rows)

    def ask_for_plan(self, workload: Mapping[str, Any]) -> None:
        """Plan this workload with the search narrowed as the filter has it; the answer comes as a message."""
        where = str(self.preset.path) if self.preset else ""
        self.main.query_one(AnswerLine).wait()
        self.asked = self.facets.over(workload), where
        self.run_worker(self.plan_loop.ask(self.asked[0], where, self.basis), group="plan", exit_on_error=False)

    def state_of(self, action: Action) -> ActionState:
        """Current state of an action; with plain signs its keys are in words, as arrows would read like letters."""
        state = action.state(self, self.keymap.get(action.id))
        return state._replace(keys=state.keys.translate(KEYS_IN_WORDS)) if self.options.ascii_only else state

    def action_groups(self) -> Mapping[str, list[ActionState]]:
        """Every action as it stands now, by group."""
        return {group: [self.state_of(action) for action in actions] for group, actions in self.ACTION_GROUPS.items()}

    def on_key(self, event: events.Key) -> None:
        """Give what was typed before a field had the focus to that field: one that has it takes what can be printed itself.

        A connection that is slow, or a busy machine, hands over several keys at once.
        """
        from widgets.drawing.text_field import TextField
        from widgets.screens.overlay import NarrowedList

        if not event.is_printable:
            return
        if isinstance(self.focused, TextField):
            self.focused.post_message(events.Key(event.key, event.character))
        elif isinstance(self.screen, NarrowedList):
            self.screen.keep(event)
        else:
            return
        event.stop()
        event.prevent_default()

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a message for a few seconds; it may hold brackets, which are no markup here."""
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def take_back(self, message: str) -> None:
        """Remove this message: it no longer applies."""
        for note in [note for note in self._notifications if note.message == message]:
            self._unnotify(note)
