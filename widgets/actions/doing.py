"""What the actions do: one function per id of the registry, what they are called now, and why they cannot be done."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import SystemCommand
from textual.markup import escape
from textual.widgets import Input

from widgets import state_files
from widgets.actions import export
from widgets.actions.registry import ACTIONS, PANES, Action
from widgets.drawing import theme

if TYPE_CHECKING:
    from widgets.app import PlannerApp
    from widgets.screens.picker import PickerScreen

Work = Coroutine[Any, Any, None]
NEEDS_PANES = ("filter", "preset", *(f"pane-{name}" for name in PANES))
NEEDS_PLAN = ("sort", "reverse", "wide", "refresh", "export", "copy-command", "save", "undo", "basis")
NEEDS_ROW = ("why", "memory", "time", "copy", "compare")
LEAST_COMPARED = 2
MEASURES = ("benchmark", "suite")


def why_not(app: PlannerApp, name: str) -> str | None:
    """Why the action cannot be done now; None: it can."""
    if name in {*NEEDS_PANES, *MEASURES} and app.measuring is None:
        return "Still opening."
    if app.plan is None and name in {*NEEDS_PLAN, *NEEDS_ROW}:
        return "There is no plan yet."
    if name in NEEDS_ROW and app.table.highlighted is None:
        return "No row is highlighted."
    if name == "memory" and app.table.highlighted is not None and app.table.highlighted.answer.memory_bytes is None:
        return "The memory of this row is not known: it is not supported."
    if name == "time" and app.table.highlighted is not None and not app.table.highlighted.answer.seconds_by_class:
        return "The time of this row is not known: it is not supported."
    if name in MEASURES and app.measures:
        return "A benchmark is running; x stops it."
    if name == "refresh" and app.measures:
        return "A benchmark is running; its results enter the plan by themselves."
    if name == "stop" and not app.measures:
        return "No benchmark is running; b starts one."
    if name == "undo" and not app.form.can_undo:
        return "Nothing was changed since the preset was opened."
    if name == "pause" and not app.watching.running:
        return "This machine is not being watched."
    if name == "processes" and not app.watching.sees_gpus:
        return "No GPU is watched whose processes could be listed."
    if name == "rightsize" and not app.watching.window:
        return "Nothing was read of a GPU yet."
    if name == "zoom" and app.single and not app.main.has_class("-zoomed"):
        return "This screen shows one pane at a time already."
    return None


def label(app: PlannerApp, action: Action) -> str:
    """What the action is called now."""
    if action.id == "pause" and app.watching.paused:
        return "resume"
    if action.id == "basis" and app.basis == "spec":
        return "measured"
    if action.id == "wide" and app.measuring is not None and app.table.wide:
        return "fewer columns"
    return action.label


def back(app: PlannerApp) -> None:
    """Back out one level: the filter, then the form or another pane, then the zoom."""
    words = app.main.query_one("#filter", Input)
    if words.has_focus or app.table.filter_words:
        words.value = ""
        words.display = False
        app.show_pane("ranking")
    elif app.active_pane != "ranking":
        app.show_pane("ranking")
    elif app.main.has_class("-zoomed"):
        zoom(app)


def zoom(app: PlannerApp) -> None:
    """One pane, or all of them."""
    app.main.toggle_class("-zoomed")
    app.refresh_keys()


def open_filter(app: PlannerApp) -> None:
    """The filter's line, with the cursor in it."""
    app.show_pane("ranking", focus=False)
    words = app.main.query_one("#filter", Input)
    words.display = True
    words.focus()


def switch_basis(app: PlannerApp) -> None:
    """Plan again on the other basis."""
    app.basis = "spec" if app.basis == "measured" else "measured"
    app.ask_for_plan(app.form.workload)


def pause(app: PlannerApp) -> None:
    """Stop or go on watching."""
    app.watching.toggle()
    from widgets.panes.machine.pane import MachineView

    app.main.query_one(MachineView).set_paused(app.watching.paused)


def processes(app: PlannerApp) -> None:
    """List who uses the GPUs, or no longer; where one pane is shown at a time that one comes first."""
    from widgets.panes.machine.pane import MachineView

    if app.single and app.active_pane != "machine":
        app.show_pane("machine")
        if app.main.query_one(MachineView).lists_processes:
            return
    app.main.query_one(MachineView).toggle_processes()


async def why(app: PlannerApp) -> None:
    """The detail of the highlighted row."""
    from widgets.screens.why import WhyScreen

    row = app.table.highlighted
    if row is not None and app.plan is not None:
        screen = WhyScreen(row, app.plan, app.symbols)
        await app.push_screen(screen)
        screen.show_part(await app.session_thread.ask(lambda session: session.part_named(row.gpu)))
        if row.rank is None:
            workload, where = app.planned
            levers = await app.session_thread.ask(lambda session: session.levers(session.workload(workload, where), row))
            screen.show_levers(levers)


async def memory(app: PlannerApp) -> None:
    """The memory of the highlighted row, item by item; where it does not fit, with what would make it."""
    from widgets.screens.memory import ItemsScreen

    row = app.table.highlighted
    if row is not None and app.plan is not None:
        screen = ItemsScreen(row, app.plan, app.symbols)
        await app.push_screen(screen)
        (workload, where), basis = app.planned, app.basis
        screen.show(
            await app.session_thread.ask(lambda session: session.memory_detail(session.workload(workload, where), row, basis=basis))
        )
        if row.rank is None:
            levers = await app.session_thread.ask(lambda session: session.levers(session.workload(workload, where), row))
            screen.show_levers(levers)


def compare(app: PlannerApp) -> None:
    """The rows marked side by side; without two of them, the highlighted row beside the first."""
    from widgets.screens.compare import CompareScreen

    row, rows = app.table.highlighted, app.table.marked
    if app.plan is None or row is None:
        return
    if len(rows) < LEAST_COMPARED:
        first = next(iter(rows), app.plan.rows[0])
        rows = [first, row] if first is not row else app.plan.rows[:LEAST_COMPARED]
    app.push_screen(CompareScreen(rows, app.plan, app.symbols))


def study(app: PlannerApp) -> None:
    """The study of compute per dollar."""
    from widgets.screens.study import StudyScreen, export_study

    app.push_screen(StudyScreen(app.session_thread.ask, partial(export_study, app), app.symbols))


async def time(app: PlannerApp) -> None:
    """Where the time of the highlighted row goes, operator by operator."""
    from widgets.screens.time import TimeScreen

    row = app.table.highlighted
    if row is not None:
        screen = TimeScreen(row, app.symbols)
        await app.push_screen(screen)
        (workload, where), basis = app.planned, app.basis
        screen.show(
            await app.session_thread.ask(lambda session: session.time_detail(session.workload(workload, where), row, basis=basis))
        )


def rightsize(app: PlannerApp) -> None:
    """What the GPUs were seen to do, and what to change about it."""
    from widgets.screens.rightsize import RightSizeScreen

    app.push_screen(RightSizeScreen(app))


def save(app: PlannerApp) -> None:
    """Ask for a name, then write the preset."""
    from widgets.screens.dialogs import NameScreen

    suggested = app.preset.name if app.preset else "my-workload"
    hint = "Goes to the presets of your own config folder; a name of yours again replaces it."
    app.push_screen(NameScreen("Save the workload as a preset", suggested, hint), partial(_save, app))


def _save(app: PlannerApp, name: str | None) -> None:
    from widgets import opening

    if name is not None:
        app.run_worker(opening.save_preset(app, name), group="save", exit_on_error=False)


def choose_preset(app: PlannerApp) -> None:
    """The list of presets."""
    from widgets.screens.picker import PickerScreen

    current = app.preset.name if app.preset else None
    app.push_screen(PickerScreen("Open a preset", app.form.presets, current), partial(_open, app))


def _open(app: PlannerApp, name: str | None) -> None:
    from widgets import opening

    if name is not None:
        app.run_worker(opening.open_preset(app, name), group="preset", exclusive=True, exit_on_error=False)


def choose_theme(app: PlannerApp) -> None:
    """The list of themes, each shown as the cursor meets it."""
    before = app.theme

    def chosen(name: str | None) -> None:
        if name:
            use_theme(app, name)
        else:
            app.theme = before

    app.push_screen(theme_picker(before), chosen)


def use_theme(app: PlannerApp, name: str) -> None:
    """Show these colours, now and at the next start."""
    app.theme = app.choices["theme"] = name
    state_files.save(app.options.state, app.choices)


def theme_picker(current: str) -> PickerScreen:
    """A picker that shows the theme under its cursor."""
    from widgets.screens.picker import Item, PickerScreen

    class ThemePicker(PickerScreen):
        def highlight(self, value: str) -> None:
            self.app.theme = value

    return ThemePicker("Theme", [Item(name) for name in theme.NAMES], current)


def show_help(app: PlannerApp) -> None:
    """Help for the active pane."""
    from widgets.screens.help import HelpScreen

    app.push_screen(HelpScreen(app.active_pane, app.key_state, partial(why_not, app), app.symbols))


def leave(app: PlannerApp) -> None:
    """Quit; a running benchmark is asked about."""
    if not app.measures:
        app.exit()
        return

    def answered(yes: bool | None) -> None:
        if yes:
            app.exit()

    from widgets.screens.dialogs import ConfirmScreen

    app.push_screen(
        ConfirmScreen("A benchmark is running. What it measured so far is kept.", "stop it and quit", "go on"), answered
    )


async def refresh(app: PlannerApp) -> None:
    """Read everything again."""
    from widgets import opening

    await opening.read_again(app)


async def undo(app: PlannerApp) -> None:
    """Take back the last change."""
    await app.form.undo()


async def stop(app: PlannerApp) -> None:
    """Stop the benchmark."""
    if app.measuring is not None:
        await app.measuring.stop()


async def benchmark(app: PlannerApp, suite: str | None = None) -> None:
    """Measure this machine, and the products of the model in the form."""
    if app.single:
        app.show_pane("benchmark")
    if app.measuring is not None:
        await app.measuring.measure(app.plan, suite=suite, model=app.form.workload.get("model"))


def choose_suite(app: PlannerApp) -> None:
    """The suites with the time each may take; the one chosen begins."""
    from widgets.background.benchmark import suites
    from widgets.screens.picker import PickerScreen

    def chosen(name: str | None) -> None:
        if name is not None and why_not(app, "benchmark") is None:
            app.run_worker(benchmark(app, name), group="act-benchmark", exit_on_error=False)
            app.refresh_keys()

    app.push_screen(PickerScreen("Measure this machine", suites(app.form.workload.get("model"))), chosen)


DO: Mapping[str, Callable[[PlannerApp], Work | None]] = {
    "benchmark": benchmark,
    "suite": choose_suite,
    "stop": stop,
    "basis": switch_basis,
    "pause": pause,
    "processes": processes,
    "why": why,
    "memory": memory,
    "time": time,
    "compare": compare,
    "study": study,
    "filter": open_filter,
    "sort": lambda app: app.table.sort_next(),
    "reverse": lambda app: app.table.reverse(),
    "refresh": refresh,
    "wide": lambda app: app.table.toggle_wide(),
    "export": export.export,
    "copy": export.copy_row,
    "copy-command": export.copy_command,
    "preset": choose_preset,
    "undo": undo,
    "save": save,
    **{f"pane-{name}": partial(lambda name, app: app.show_pane(name), name) for name in PANES},
    "zoom": zoom,
    "back": back,
    "theme": choose_theme,
    "help": show_help,
    "rightsize": rightsize,
    "quit": leave,
}


def palette(app: PlannerApp) -> Iterator[SystemCommand]:
    """Every action, then every preset, then every theme; what Textual would read as markup is escaped."""
    for action in ACTIONS:
        if action.scope == "app" and action.id != "back":
            reason = why_not(app, action.id)
            state = app.key_state(action)
            words = f"{state.key}: {action.description}" if reason is None else f"not now: {reason}"
            name = f"go to {action.label}" if action.id.startswith("pane-") else label(app, action)
            yield SystemCommand(name.capitalize(), escape(words), partial(app.action_act, action.id))
    for item in app.form.presets:
        yield SystemCommand(f"Preset: {item.value}", escape(item.detail), partial(_open, app, item.value))
    for name in theme.NAMES:
        yield SystemCommand(f"Theme: {name}", "Change the colours", partial(use_theme, app, name))
