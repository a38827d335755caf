"""Keys of the ranking's table and of the form's fields; the widgets move by themselves."""

from __future__ import annotations

from functools import partial

from widgets.actions.action import Action, Scope


def _key(
    scope: Scope, name: str, keys: str, key_text: str, label: str, description: str, widget_action: str, *, first: bool = False
) -> Action:
    return Action(
        f"{scope}-{name}", keys, label, description, key_text=key_text, scope=scope, widget_action=widget_action, first=first
    )


_table, _form = partial(_key, "table"), partial(_key, "form")
_choice, _group = partial(_key, "choice"), partial(_key, "group")

TABLE = (
    _table("mark", "space", "space", "mark", "Mark or unmark the row for c, and go to the next.", "mark"),
    _table("down", "j,down", "j ↓", "down", "Next row.", "move(1)"),
    _table("up", "k,up", "k ↑", "up", "Previous row.", "move(-1)"),
    _table("first", "g,home", "g", "first", "First row.", "go(0)"),
    _table("last", "G,end", "G", "last", "Last row.", "go(-1)"),
    _table("left", "h,left", "h ←", "fold", "Collapse the rows of the GPU; if W shows every column, scroll left.", "shift(-1)"),
    _table(
        "right",
        "l,right",
        "l →",
        "open",
        "Show the other rows of the GPU: counts, providers; if W shows every column, scroll right.",
        "shift(1)",
    ),
    _table("open-all", "E", "E", "open all", "Expand or collapse the rows of all GPUs.", "open_all"),
    _table("page-down", "ctrl+d,pagedown", "^d", "page down", "Half a page down.", "page(1)"),
    _table("page-up", "ctrl+u,pageup", "^u", "page up", "Half a page up.", "page(-1)"),
)
FORM = (
    _form("next", "down,tab", "↓ tab", "next field", "Next field of the form; behind the last, the first.", "move(1)", first=True),
    _form(
        "previous",
        "up,shift+tab",
        "↑ ⇧tab",
        "previous field",
        "Previous field of the form; before the first, the last.",
        "move(-1)",
        first=True,
    ),
    _form(
        "reset",
        "ctrl+r",
        "^r",
        "as preset",
        "Reset the field to the value of the preset. In a number, + and - step to the next sensible value.",
        "reset",
    ),
)
CHOICE = (
    _choice("open", "enter,space", "enter", "choose", "Open the list of a field that holds one of several values.", "open"),
    _choice("previous", "left", "←", "previous", "Previous value of a field with several values.", "step(-1)"),
    _choice("next", "right", "→", "next", "Next value of a field with several values.", "step(1)"),
    _choice("first", "home", "home", "first", "First value of a field with several values.", "go(0)"),
    _choice("last", "end", "end", "last", "Last value of a field with several values.", "go(-1)"),
)
GROUP = (
    _group("turn", "enter,space", "enter", "open, fold", "Expand or collapse a group of fields.", "fold"),
    _group("fold", "left", "←", "fold", "Collapse a group of fields.", "fold('fold')"),
    _group("open", "right", "→", "open", "Expand a group of fields.", "fold('open')"),
)
