"""Actions on the program itself: its colours, help, leaving."""

from __future__ import annotations

from widgets import state_files
from widgets.actions import conditions as need
from widgets.actions.action import Action, opens
from widgets.base_app import BaseApp
from widgets.drawing import theme


def use_theme(app: BaseApp, name: str) -> None:
    """Show these colours, now and at the next start."""
    app.theme = app.choices["theme"] = name
    result = state_files.save_choices(app.options.state, app.choices)
    if not result.kept:
        app.notify(f"{result.path} {result.reason}.", title="Not remembered for the next start", severity="warning", timeout=5)


def choose_theme(app: BaseApp) -> None:
    """List the themes, each shown as the cursor meets it."""
    from widgets.screens.picker import Item, PickerScreen

    before = app.theme

    class ThemePicker(PickerScreen):
        def highlight(self, value: str) -> None:
            app.theme = value

    def chosen(name: str | None) -> None:
        if name:
            use_theme(app, name)
        else:
            app.theme = before

    app.push_screen(ThemePicker("Theme", [Item(name) for name in theme.NAMES], before), chosen)


def leave(app: BaseApp) -> None:
    """Quit; a running benchmark is asked about."""
    if not app.benchmark_runs:
        app.exit()
        return
    from widgets.screens.dialogs import ConfirmScreen

    def answered(yes: bool | None) -> None:
        if yes:
            app.exit()

    question = "A benchmark is running. What it measured so far is kept."
    app.push_screen(ConfirmScreen(question, "stop it and quit", "go on"), answered)


def suspend(app: BaseApp) -> None:
    """Stop the program like any other; what comes back with `fg` is drawn whole."""
    app.app_resume_signal.subscribe(app, lambda _: app.call_later(app.refresh, layout=True))
    app.action_suspend_process()


def show_help(app: BaseApp) -> None:
    """Show the keys and signs, and what is in the active pane."""
    from widgets.screens.help import HelpScreen

    app.push_screen(HelpScreen(app.active_pane, app.action_groups, app.symbols))


PALETTE = "palette"
ACTIONS = (
    Action(id="theme", keys="t", label="theme", description="Choose the colours.", run=choose_theme),
    Action(
        id="help",
        keys="question_mark,f1",
        key_text="?",
        label="help",
        description="Keys, signs and what the pane shows.",
        run=show_help,
        rank=11,
    ),
    Action(
        id="tour",
        keys="i",
        label="tour",
        description="The five steps that a first start shows.",
        run=opens("tour"),
        needs=(need.open_panes,),
    ),
    Action(
        id="suspend",
        keys="ctrl+z",
        key_text="^z",
        label="suspend",
        description="Give the terminal back for a while; fg goes on.",
        run=suspend,
    ),
    Action(id="quit", keys="q", label="quit", description="Leave; asks only while a benchmark runs.", run=leave, rank=12),
    Action(
        id=PALETTE,
        keys="ctrl+p",
        key_text="^p",
        label="palette",
        description="Find any action, preset or theme by name.",
        scope="textual",
    ),
)
