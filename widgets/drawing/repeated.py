"""Work that Textual repeats for each line and each message, done when it is needed, or once; checked against 8.2.8.

- A line makes seven caches when it is made, and a screen some thousand lines whose caches nothing ever asks. Here a cache is made when
  something asks it.
- Each message is looked up in all classes of the widget that it reaches. Here that is done once for a kind of widget and a kind of
  message, unless a handler is for some senders alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from rich.segment import Segment
from textual.cache import FIFOCache
from textual.message import Message
from textual.message_pump import MessagePump
from textual.strip import Strip

CACHES = {
    "_divide_cache": 4,
    "_crop_cache": 16,
    "_style_cache": 16,
    "_filter_cache": 4,
    "_line_length_cache": 4,
    "_crop_extend_cache": 4,
    "_offsets_cache": 4,
}
"""Caches of a line, and how much each keeps."""
Handler = Callable[[Message], Awaitable[Any]]
Places = tuple[tuple[type, str], ...]
"""Classes with a handler, and its name there, in the order in which they are asked."""
FOUND: dict[tuple[type, str, type], Places | None] = {}
"""Kind of widget, name of the handler, kind of message -> where it is handled; None: that depends on the message."""
_handlers_of = MessagePump._get_dispatch_methods


def _begin(strip: Strip, segments: Iterable[Segment], cell_length: int | None = None) -> None:
    """Make a line without caches."""
    strip._segments = list(segments)
    strip._cell_length = cell_length
    strip._render_cache = strip._link_ids = strip._cell_count = None


def _missing(strip: Strip, name: str) -> Any:
    """A cache that is asked for the first time."""
    if name not in CACHES:
        raise AttributeError(name)
    made: FIFOCache[Any, Any] = FIFOCache(CACHES[name])
    setattr(strip, name, made)
    return made


def _dispatch(pump: MessagePump, method_name: str, message: Message) -> Iterator[tuple[type, Handler]]:
    """Handlers of the message."""
    key = type(pump), method_name, type(message)
    if key not in FOUND:
        FOUND[key] = _places(*key)
    places = FOUND[key]
    if places is None:
        yield from _handlers_of(pump, method_name, message)
        return
    for kind, name in places:
        if message._no_default_action:
            return
        yield kind, vars(kind)[name].__get__(pump, kind)


def _places(kind: type, method_name: str, message: type) -> Places | None:
    """Where a message of that kind is handled."""
    found: list[tuple[type, str]] = []
    for cls in kind.__mro__:
        if any(one in vars(cls).get("_decorated_handlers", ()) for one in message.__mro__):
            return None
        name = next((name for name in (f"_{method_name}", method_name) if vars(cls).get(name)), "")
        if name and not getattr(vars(cls)[name], "_textual_on", None):
            found.append((cls, name))
    return tuple(found)


Strip.__init__ = _begin  # type: ignore[assignment, method-assign]  # replaced on purpose
Strip.__getattr__ = _missing  # type: ignore[attr-defined]  # it has none
MessagePump._get_dispatch_methods = _dispatch  # type: ignore[assignment, method-assign]  # replaced on purpose
