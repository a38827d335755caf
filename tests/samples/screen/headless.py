"""A screen without a terminal, in less time: it is drawn when its user acts, and no widget is waited for that has nothing to do."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import textual.app
import textual.pilot
from textual._compositor import Compositor
from textual._context import active_app, visible_screen_stack
from textual.app import App, ScreenStackError
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.geometry import Region
from textual.message_pump import MessagePump
from textual.notifications import Notification
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, TextArea

from widgets.background import planning
from widgets.drawing import restyling
from widgets.drawing.restyling import Rules

ACTS = ("press", "_post_mouse_events", "resize_terminal")
"""Methods of `Pilot` through which a test does what a user does."""
PARSED: dict[tuple[Any, ...], list[RuleSet]] = {}
"""Rules of the style sheets that were read so far."""
FOUND: dict[tuple[RuleSet, ...], Rules] = {}
"""All rules of an app -> which of them hold for what, as apps before it found."""


def quicken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patch Textual for one test."""
    keep_still(monkeypatch)
    draw_when_used(monkeypatch)
    parse_styles_once(monkeypatch)
    monkeypatch.setattr(Pilot, "_wait_for_screen", wait_for_the_busy)
    for place in (textual.app, textual.pilot):
        monkeypatch.setattr(place, "wait_for_idle", wait_for_less)
    monkeypatch.setattr(planning, "SETTLED_S", 0.01)  # seconds a user gets to change the form further before changes are planned


def keep_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No blinking cursor, by which two pictures of one screen would differ; notes stay while a busy machine catches up."""
    monkeypatch.setattr(Notification, "time_left", property(lambda note: note.raised_at + 60 * note.timeout - time.time()))
    monkeypatch.setattr(Input, "cursor_blink", False)
    monkeypatch.setattr(TextArea, "cursor_blink", False)


def parse_styles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what style sheets say, and for whom, from one app to the next: the same text, from the same place, with the same colours."""
    parse = Stylesheet._parse_rules

    def parse_once(sheet: Stylesheet, css: str, **where: Any) -> list[RuleSet]:
        key = css, *where.values(), frozenset(sheet._variables.items())
        if key not in PARSED:
            PARSED[key] = parse(sheet, css, **where)
        return PARSED[key]

    def found_once(every: list[RuleSet], by_name: dict[str, list[RuleSet]]) -> Rules:
        found = FOUND.setdefault((*every,), Rules(every, by_name))
        found.by_name = by_name
        return found

    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_once)
    monkeypatch.setattr(restyling, "Rules", found_once)


def draw_when_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw what stands there before each key, click and change of size, and at the end, instead of sixty times a second.

    Layout, messages and callbacks keep their times; what is to be drawn anew adds up until then. Of a whole screen that nobody looks at
    each widget makes its lines, and they are not put together; nor is the screen behind another put together and dimmed.
    """
    draw, compose, run = Compositor.render_update, Compositor.render_full_update, App.run_test
    drawing = False
    front_alone = False

    def draw_if_asked(compositor: Compositor, *, full: bool = False, **how: Any) -> Any:
        return draw(compositor, full=full, **how) if full or drawing or not active_app.get().is_headless else None

    def compose_if_seen(compositor: Compositor, **how: Any) -> Any:
        if not drawing:
            return compose(compositor, **how)
        nonlocal front_alone
        compositor._dirty_regions.clear()
        front_alone = True
        try:
            return deque(compositor._get_renders(compositor.size.region), maxlen=0)
        finally:
            front_alone = False

    def lines_of(screen: Screen[Any], crop: Region) -> list[Strip]:
        if not (front_alone and screen.is_modal):
            return Widget.render_lines(screen, crop)
        visible_screen_stack.get().clear()  # as if it were drawn
        return []

    def draw_now(app: App[Any]) -> None:
        nonlocal drawing
        drawing = True
        try:
            app.screen._compositor_refresh()
        finally:
            drawing = False

    def drawn_before(act: Callable[..., Any]) -> Callable[..., Any]:
        async def draw_and_act(pilot: Pilot[Any], *given: Any, **more: Any) -> Any:
            draw_now(pilot.app)
            return await act(pilot, *given, **more)

        return draw_and_act

    @asynccontextmanager
    async def run_and_draw(app: App[Any], **how: Any) -> AsyncIterator[Pilot[Any]]:
        async with run(app, **how) as pilot:
            yield pilot
            if app.is_running:
                draw_now(app)

    monkeypatch.setattr(Compositor, "render_update", draw_if_asked)
    monkeypatch.setattr(Compositor, "render_full_update", compose_if_seen)
    monkeypatch.setattr(Screen, "render_lines", lines_of, raising=False)
    monkeypatch.setattr(App, "run_test", run_and_draw)
    for name in ACTS:
        monkeypatch.setattr(Pilot, name, drawn_before(getattr(Pilot, name)))


async def wait_for_less(*_least_s: float) -> None:
    """Wait until the process has done nothing for two looks at it, five milliseconds apart, with its messages answered and its frames made.

    Textual looks every twentieth millisecond, and makes no frame for it.
    """
    app: Any = active_app.get()
    end_s, quiet = time.monotonic() + 1, 0
    while quiet < 2 and time.monotonic() < end_s:
        await answers_of(app)
        if app.is_running and app._screen_stack:
            app.screen._on_timer_update()
        spent_s = time.process_time()
        await asyncio.sleep(0.005)
        quiet = quiet + 1 if time.process_time() - spent_s < 0.0005 else 0


async def wait_for_the_busy(pilot: Pilot[Any], timeout: float = 30.0) -> bool:  # noqa: ASYNC109  # as Textual has it
    """Wait for the app as `answers_of` does."""
    return await answers_of(pilot.app, timeout)


async def answers_of(app: Any, timeout: float = 30.0) -> bool:  # noqa: ASYNC109  # as above
    """Wait until each widget that has messages or is at work with one has come to the end of them, or the app has failed."""
    try:
        pumps = [app, *app.screen.walk_children(with_self=True)]
    except ScreenStackError:
        return False
    events = [(pump, asyncio.Event()) for pump in pumps if not is_idle(pump)]
    asked = [event.wait() for pump, event in events if pump.call_later(event.set)]
    if not asked:
        return True
    answered, failed = asyncio.gather(*asked), asyncio.ensure_future(app._exception_event.wait())
    await asyncio.wait((answered, failed), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    done = answered.done()
    answered.cancel()
    failed.cancel()
    return done


def is_idle(pump: MessagePump) -> bool:
    """True if it waits for the next message."""
    queue: Any = pump._message_queue
    return queue.empty() and bool(queue.ready_event._waiters) and pump._pending_message is None
