"""Keys of the ranking's table and of the form's fields; the widgets move by themselves."""

from __future__ import annotations

from widgets.actions.action import Action


def _table(name: str, keys: str, key_text: str, label: str, description: str, widget_action: str) -> Action:
    return Action(
        id=f"table-{name}",
        keys=keys,
        key_text=key_text,
        label=label,
        description=description,
        widget_action=widget_action,
        scope="table",
    )


def _form(name: str, keys: str, key_text: str, widget_action: str) -> Action:
    return Action(
        id=f"form-{name}",
        keys=keys,
        key_text=key_text,
        label=f"{name} field",
        description=f"{name.capitalize()} field of the form.",
        widget_action=widget_action,
        scope="form",
    )


TABLE = (
    _table("mark", "space", "space", "mark", "Mark the row for c, or no longer, and go to the next.", "mark"),
    _table("down", "j,down", "j ↓", "down", "Next row.", "move(1)"),
    _table("up", "k,up", "k ↑", "up", "Previous row.", "move(-1)"),
    _table("first", "g,home", "g", "first", "First row.", "go(0)"),
    _table("last", "G,end", "G", "last", "Last row.", "go(-1)"),
    _table("left", "h,left", "h ←", "fold", "Fold the rows of the GPU; where W draws every column: shift them back.", "shift(-1)"),
    _table(
        "right",
        "l,right",
        "l →",
        "open",
        "Open the other rows of the GPU: counts, providers; where W draws every column: shift them.",
        "shift(1)",
    ),
    _table("open-all", "E", "E", "open all", "Open the rows of every GPU, or fold all of them.", "open_all"),
    _table("page-down", "ctrl+d,pagedown", "^d", "page down", "Half a page down.", "page(1)"),
    _table("page-up", "ctrl+u,pageup", "^u", "page up", "Half a page up.", "page(-1)"),
)
FORM = (
    _form("next", "down", "↓ tab", "app.focus_next"),
    _form("previous", "up", "↑ ⇧tab", "app.focus_previous"),
    Action(
        id="form-reset",
        keys="ctrl+r",
        key_text="^r",
        label="as preset",
        description="Put the field back to what the preset has. In a number + and - step to the next sensible value.",
        widget_action="reset",
        scope="form",
    ),
)


def _choice(name: str, keys: str, key_text: str, label: str, description: str, widget_action: str) -> Action:
    return Action(
        id=f"choice-{name}",
        keys=keys,
        key_text=key_text,
        label=label,
        description=description,
        widget_action=widget_action,
        scope="choice",
    )


CHOICE = (
    _choice("open", "enter,space", "enter", "choose", "Open the list of a field that holds one of several values.", "open"),
    _choice("previous", "left", "←", "previous", "Previous value of such a field.", "step(-1)"),
    _choice("next", "right", "→", "next", "Next value of such a field.", "step(1)"),
)


def _group(name: str, keys: str, key_text: str, label: str, description: str, widget_action: str) -> Action:
    return Action(
        id=f"group-{name}",
        keys=keys,
        key_text=key_text,
        label=label,
        description=description,
        widget_action=widget_action,
        scope="group",
    )


GROUP = (
    _group("turn", "enter,space", "enter", "open, fold", "Open a group of fields, or fold it.", "fold"),
    _group("fold", "left", "←", "fold", "Fold a group of fields.", "fold('fold')"),
    _group("open", "right", "→", "open", "Open a group of fields.", "fold('open')"),
)
