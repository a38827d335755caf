"""Actions on the program itself: its colours, help, leaving."""

from __future__ import annotations

from widgets.actions import conditions as need
from widgets.actions.action import Action, Actions, Work, open_screen
from widgets.base_app import BaseApp
from widgets.drawing import theme
from widgets.state import state_files

PALETTE = "palette"
ACTIONS = Actions()


@ACTIONS.key("theme", "t", "theme")
def choose_theme(app: BaseApp) -> None:
    """Choose the colours."""
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


def use_theme(app: BaseApp, name: str) -> None:
    """Show these colours, now and at the next start."""
    app.theme = app.choices["theme"] = name
    result = state_files.save_choices(app.options.state, app.choices)
    if not result.kept:
        app.notify(f"{result.path} {result.reason}.", title="Not saved for the next start", severity="warning", timeout=5)


@ACTIONS.key("help", "question_mark,f1", "help", key_text="?", rank=11)
def show_help(app: BaseApp) -> None:
    """Keys, signs and what the pane shows."""
    from widgets.screens.help import HelpScreen

    app.push_screen(HelpScreen(app.active_pane, app.action_groups, app.symbols))


@ACTIONS.key("tour", "i", "tour", need.open_panes)
def tour(app: BaseApp) -> Work | None:
    """The five steps that a first start shows."""
    return open_screen("tour", app)


@ACTIONS.key("suspend", "ctrl+z", "suspend", key_text="^z")
def suspend(app: BaseApp) -> None:
    """Give the terminal back for a while; fg goes on."""
    app.app_resume_signal.subscribe(app, lambda _: app.call_later(app.refresh, layout=True))
    app.action_suspend_process()


@ACTIONS.key("quit", "q", "quit", rank=12)
def leave(app: BaseApp) -> None:
    """Leave; asks only while a benchmark runs."""
    if not app.benchmark_runs:
        app.exit()
        return
    from widgets.screens.dialogs import ConfirmScreen

    def answered(yes: bool | None) -> None:
        if yes:
            app.exit()

    question = "A benchmark is running. Its results so far are kept."
    app.push_screen(ConfirmScreen(question, "stop it and quit", "go on"), answered)


ACTIONS.append(Action(PALETTE, "ctrl+p", "palette", "Find any action, preset or theme by name.", key_text="^p", scope="textual"))
