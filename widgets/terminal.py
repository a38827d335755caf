"""The terminal's keys, read by a thread that ends when it is told to.

Textual's own looks for the end every tenth of a second and then waits for another one: a fifth of a second of every leave.
"""

from __future__ import annotations

import codecs
import os
import selectors
from typing import Any

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

TICK_S = 0.1
"""How often the parser looks whether an escape was a key of its own."""
MOST_BYTES = 4096


class PromptDriver(LinuxDriver):
    """Textual's driver for terminals of Unix, its input thread woken at the end through a pipe."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._woken, self._wake = os.pipe()

    def disable_input(self) -> None:
        """Read no more keys; the thread is gone afterwards."""
        os.write(self._wake, b"x")
        super().disable_input()
        os.read(self._woken, MOST_BYTES)

    def run_input_thread(self) -> None:
        """Hand on keys, the mouse and the terminal's answers until `disable_input`."""
        parser = XTermParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")().decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                ready = {key.fd for key, _ in selector.select(TICK_S)}
                text = decode(os.read(self.fileno, MOST_BYTES)) if self.fileno in ready else ""
                for event in parser.feed(text) if text else ():
                    self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)

    def close(self) -> None:
        """Let go of the terminal."""
        super().close()
        os.close(self._wake)
        os.close(self._woken)
