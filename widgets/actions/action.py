"""An action: its keys, its words, what it runs, and why it cannot run now."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeVar

from textual.binding import Binding

Work = Coroutine[Any, Any, None]
Run = TypeVar("Run", bound=Callable[[Any], Any])
Scope = Literal["app", "table", "form", "choice", "group", "textual"]
Condition = Callable[[Any], str | None]
"""Called with the app; returns the reason why the condition does not hold, or None."""


class Action(NamedTuple):
    """Something a key does."""

    id: str
    """Name under which `[keys]` of the user's config.toml remaps it."""
    keys: str
    """Separated by commas, as Textual names them."""
    label: str
    """One or two words, for the key line."""
    description: str
    """One sentence, for help and palette."""
    run: Callable[[Any], Work | None] | None = None
    """Called with the app; None: a widget runs its own `widget_action` instead."""
    needs: tuple[Condition, ...] = ()
    """Conditions that have to hold before it can run; the first that does not is the reason shown."""
    label_now: Callable[[Any], str | None] | None = None
    """Returns the label to show instead of the usual one, or None."""
    key_text: str = ""
    """Keys as shown; empty: the first of them."""
    rank: int = 0
    """Place in the key line, smallest first; 0: not in the key line."""
    scope: Scope = "app"
    """Scope of the keys; textual: everywhere, by Textual's own binding, which the user cannot remap."""
    widget_action: str = ""
    """Textual's name for what the widget does."""
    first: bool = False
    """True if it precedes the keys of the focused widget, and later keys of a burst."""

    def why_not(self, app: Any) -> str | None:
        """The reason why it cannot run now; None: it can."""
        return next((reason for condition in self.needs if (reason := condition(app)) is not None), None)

    def state(self, app: Any, keys: str | None) -> ActionState:
        """The action as it stands now; `keys`: what the user remapped it to."""
        label = self.label_now(app) if self.label_now is not None else None
        return ActionState(self, keys or self.key_text or self.keys.split(",")[0], label or self.label, self.why_not(app))


class ActionState(NamedTuple):
    """An action as key line, help and palette show it now."""

    action: Action
    keys: str
    label: str
    reason: str | None
    """Reason why it cannot run; None: it can."""


def bindings(actions: Iterable[Action]) -> list[Binding]:
    """The actions as Textual's bindings."""
    return [
        Binding(
            action.keys,
            action.widget_action or f"app.act('{action.id}')",
            action.label,
            show=False,
            priority=action.first,
            tooltip=action.description,
            id=action.id,
        )
        for action in actions
    ]


class Actions(list[Action]):
    """Actions in the order in which help and palette list them."""

    def key(self, id: str, keys: str, label: str, *needs: Condition, **more: Any) -> Callable[[Run], Run]:  # noqa: A002
        """Decorator that adds an action which runs the function; the function's docstring is the action's description."""

        def add(run: Run) -> Run:
            self.append(Action(id, keys, label, run.__doc__ or "", run, needs, **more))
            return run

        return add


def open_screen(screen: str, app: Any) -> Work | None:
    """Open a screen by `open_screen` of the module `screen` of `widgets.screens`, which is imported when it is first opened."""
    opened: Work | None = import_module(f"widgets.screens.{screen}").open_screen(app)
    return opened
