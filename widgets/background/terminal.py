"""Textual's driver for terminals of Unix; it works round these faults of the one in 8.2.8.

- Bytes that are no UTF-8 end the thread that reads keys (Textualize/textual#6456); so does a terminal that hangs up, or it keeps a
  processor busy for ever; and the program goes on, deaf.
- An answer of the terminal that Textual does not know, such as its background colour, is taken for keys: its letters start actions.
- So is every sequence that has no end: a thousand letters after ESC P are a thousand actions, and what is typed then waits behind them.
- What a terminal pastes without saying so is keys, too: a thousand letters are a thousand actions, and among them those that leave.
- Every move of the mouse and change of focus or size of a thousand that were read at once is answered, and what is typed then waits.
- A size is believed, however large: a terminal of 65,535 rows and columns takes all memory.
- The input thread looks for the end every tenth of a second and then waits for another one: a fifth of a second of every leave.
- The thread that writes ends with the first error, after which the program waits for it for ever: a terminal that hung up.
- SIGTSTP is answered within whatever it interrupts: in the middle of a write the program waits for itself for ever, and while the
  terminal is being taken or given back a thread is started twice, or the terminal is left in its raw mode.
- SIGCONT without a SIGTSTP before it takes the terminal a second time, and what is given back at the end is its raw mode.
- COLUMNS and LINES of the environment go before the terminal's own size, so that a terminal that is dragged is never followed.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import selectors
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from textual import events
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers import linux_driver
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

TICK_S = 0.1
"""Interval at which the parser checks whether an escape was a key of its own."""
MOST_BYTES = 4096
LONGEST_KEY = 32
"""Characters of the longest sequence that is looked up as a key or a click."""
STRING = r"\x1b[]_^XP][^\x07\x18\x1a\x1b]"
"""A control string OSC, APC, PM, SOS or DCS of ECMA-48, which no key sends; Textual asks for none. BEL, CAN, SUB or ESC \\ ends it."""
SEQUENCE = r"\x1b\[[ -?]"
"""A control sequence without its last character, which is one of @ to ~."""
UNASKED = (
    rf"{STRING}*(?:[\x07\x18\x1a]|\x1b\\)"
    rf"|{STRING}{{{LONGEST_KEY},}}(?=\x1b[^\\])"  # cut off by what begins after it
    rf"|{SEQUENCE}{{{LONGEST_KEY},}}(?:[@-~]|(?=[^ -~]))"
)
"""Whole strings, and sequences that are no key for their length."""
BEGUN = rf"({STRING}*|{SEQUENCE}*)(\x1b?)\Z"
"""Beginning of one at the end of what was read: the rest is on its way, or it was a key with Alt."""
REST_S = 0.3
"""Time that the rest has."""
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
MARKS = r"(\x1b\[20[01]~)"
PLAIN = r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
"""A character of a text: no key but those of letters, signs, enter and tab."""
MOST_TYPED = 32
"""Characters read at once that may be typed: a second of a key that is held down, on a line that stood still."""
KEY = r"\x1b(?:\[[ -?]*[@-~]|O?.)?"
BURST = rf"(?P<key>{KEY})|{PLAIN}{{{MOST_TYPED + 1},}}"
MORE = rf"(?P<key>{KEY})|\A{PLAIN}+|{PLAIN}{{{MOST_TYPED + 1},}}"
"""What is read within `BURST_S` of a burst: it may be the rest of it."""
BURST_S = 0.05
MOST_CELLS = (1000, 300)
"""Columns and rows that are drawn on at most: three screens side by side in the smallest type."""
OVERTAKEN = ((events.MouseMove,), (events.AppFocus, events.AppBlur), (events.Resize,))
"""Kinds of events of which the last in a row says all that the others did."""
HUNG_UP = 128 + signal.SIGHUP


def leave_from_thread(app: App[Any], code: int) -> bool:
    """Make `app` exit with `code`, asked by another thread; False if it does not run."""
    loop = app._loop
    if loop is None:
        return False
    with contextlib.suppress(RuntimeError):  # it ends just now
        loop.call_soon_threadsafe(partial(app.exit, return_code=code))
    return True


class Typed:
    """Keys and clicks of what is read from a terminal, without the strings and sequences that nobody types.

    One that has no end is skipped until the terminal says nothing for `REST_S`, or begins another. More characters at once than
    anybody types are marked as pasted.
    """

    def __init__(self) -> None:
        self.begun = ""
        """Characters that the next ones may go on with; of a sequence too long for a key the first ones."""
        self.pasting = False
        """True if the terminal said that a paste begins, and not yet that it ends."""
        self.burst_until_s = 0.0
        """Time until which what comes belongs to the paste before it."""

    def of(self, read: str, now_s: float) -> str:
        """Keys and clicks that are complete with `read`; empty `read`: the terminal said nothing for `REST_S`."""
        text, self.begun = self.begun + read, ""
        if not read:
            return text if len(text) <= LONGEST_KEY else ""
        text = re.sub(UNASKED, "", text)
        if last := re.search(BEGUN, text):
            text, self.begun = text[: last.start()], last[1][: LONGEST_KEY + 2] + last[2]
        return "".join(self._marked(part, now_s) for part in re.split(MARKS, text))

    def _marked(self, part: str, now_s: float) -> str:
        if part in {PASTE_BEGINS, PASTE_ENDS}:
            self.pasting = part == PASTE_BEGINS
            return part
        if self.pasting:
            return part
        burst = MORE if now_s < self.burst_until_s else BURST
        marked = re.sub(burst, lambda found: found["key"] or PASTE_BEGINS + found[0] + PASTE_ENDS, part)
        if marked.endswith(PASTE_ENDS):
            self.burst_until_s = now_s + BURST_S
        return marked


class PromptDriver(LinuxDriver):
    """Textual's driver for terminals of Unix: its input thread is woken at the end through a pipe, and it stops between two callbacks."""

    _pipe: tuple[int, int] | None = None
    """Events of the input thread's end, asked for and done; None while there is no such thread."""
    _taken = _suspended = False
    """Whether the terminal is taken; whether it was given back for as long as the process is stopped."""

    def _get_terminal_size(self) -> tuple[int, int]:
        try:
            width, height = os.get_terminal_size(self.fileno)
        except OSError:
            width, height = super()._get_terminal_size()
        return _drawn((width, height) if width and height else super()._get_terminal_size())

    def start_application_mode(self) -> None:
        """Take the terminal."""
        if self._pipe is None:
            self._pipe = os.pipe()
            for _ in range(99):  # one that is in the background is stopped, and then refused the terminal
                if not self._taken:
                    super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual does not annotate it
                    self._taken = self._writer_thread is not None and self._writer_thread.is_alive()

    def stop_application_mode(self) -> None:
        """Give the terminal back."""
        self._taken = False
        super().stop_application_mode()

    def disable_input(self) -> None:
        """Read no more keys; the thread is gone afterwards."""
        if self._pipe is not None:
            os.write(self._pipe[1], b"x")
            super().disable_input()
            os.read(self._pipe[0], MOST_BYTES)

    def _sigtstp_application(self, *_: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(self._stop_process)
        except RuntimeError:  # the app has ended
            os.kill(os.getpid(), signal.SIGSTOP)

    def _stop_process(self) -> None:
        """Stop this process until SIGCONT; the terminal is given back if it is taken."""
        if self._taken and self._auto_restart:
            self.suspend_application_mode()
            self._must_signal_resume = self._suspended = True
        os.kill(os.getpid(), signal.SIGSTOP)

    def _sigcont_application(self, *_: Any) -> None:
        if self._suspended:
            self._suspended = False
            self.resume_application_mode()

    def _run_input_thread(self) -> None:
        try:
            self.run_input_thread()
        except Exception as error:  # noqa: BLE001  # a thread has no caller
            self._app.call_later(self._app._handle_exception, error)

    def run_input_thread(self) -> None:
        """Hand on keys, the mouse and the terminal's answers until `disable_input`, or until the terminal hangs up."""
        parser = XTermParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        typed = Typed()
        assert self._pipe is not None
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            selector.register(self._pipe[0], selectors.EVENT_READ)
            while not self.exit_event.is_set():
                ready = {key.fd for key, _ in selector.select(REST_S if typed.begun else TICK_S)}
                read = ""
                if self.fileno in ready:
                    given = self._given()
                    if given == b"":
                        leave_from_thread(self._app, HUNG_UP)
                        return
                    read = decode(given)
                text, found = typed.of(read, time.monotonic()), list[Message]()
                try:
                    found += (*(parser.feed(text) if text else ()), *parser.tick())
                except ValueError:  # a number of the terminal's that is none, or has thousands of digits
                    parser, typed.pasting = XTermParser(self._debug), False
                for event in _not_overtaken(found):
                    self.process_message(event)

    def _given(self) -> bytes:
        """Typed bytes; empty: the terminal is gone."""
        try:
            return os.read(self.fileno, MOST_BYTES)
        except OSError:
            return b""

    def close(self) -> None:
        """Let go of the terminal."""
        super().close()
        for end in self._pipe or ():
            os.close(end)
        self._pipe = None


def _drawn(size: tuple[int, int]) -> tuple[int, int]:
    """Part of a terminal of this size that is drawn on."""
    return min(size[0], MOST_CELLS[0]), min(size[1], MOST_CELLS[1])


def _not_overtaken(read: Sequence[Message]) -> Iterator[Message]:
    """What was read at once, without the events that the one after them makes void; sizes as they are drawn on."""
    for number, event in enumerate(read):
        kind = next((kinds for kinds in OVERTAKEN if isinstance(event, kinds)), None)
        if kind is None or not isinstance(next(iter(read[number + 1 : number + 2]), None), kind):
            yield events.Resize.from_dimensions(_drawn(event.size), event.pixel_size) if isinstance(event, events.Resize) else event


class _LastingWriter(WriterThread):
    """Writes what it is given, and once the terminal is gone takes it without writing."""

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().run()
            return
        while self._queue.get() is not None:
            pass


if sys.platform != "win32":
    linux_driver.WriterThread = _LastingWriter  # type: ignore[attr-defined]  # an import of that module, not exported
