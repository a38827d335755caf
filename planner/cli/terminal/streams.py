"""Output streams that remove control characters from all text written to stdout and stderr.

Cursor movements and colours bypass them: `console` and the progress line write to the terminal directly.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from planner.startup import stderr_may_fail
from planner.text import clean, json_document, one_line

if TYPE_CHECKING:
    from pathlib import Path


class CleanStream:
    """A text stream that cleans text and writes it to the stream `beneath`."""

    def __init__(self, beneath: Any) -> None:
        self.beneath = beneath

    def write(self, text: str) -> int:
        """Write `text`, clean."""
        self.beneath.write(clean(text))
        return len(text)

    def writelines(self, texts: Iterable[str]) -> None:
        """Write all of `texts`, clean."""
        self.write("".join(texts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


class StdoutLostError(OSError):
    """Writing to stdout failed."""


class Stdout:
    """stdout with its own exception, so that its errors differ from those of other files."""

    def __init__(self, beneath: Any) -> None:
        self._beneath = beneath

    def write(self, data: Any) -> int:
        """Write `data`; raises `StdoutLostError`."""
        with _marked():
            return int(self._beneath.write(data))

    def flush(self) -> None:
        """Write buffered text; raises `StdoutLostError`."""
        with _marked():
            self._beneath.flush()

    @property
    def buffer(self) -> Stdout:
        """Stream for bytes."""
        return Stdout(self._beneath.buffer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._beneath, name)


@contextlib.contextmanager
def _marked() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StdoutLostError(error.errno, error.strerror) from None


@contextlib.contextmanager
def clean_streams() -> Iterator[None]:
    """Clean all text to stdout and stderr; characters that the terminal's encoding lacks become '?'."""
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.stdout, sys.stderr = CleanStream(Stdout(sys.stdout)), CleanStream(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextlib.contextmanager
def plain_streams() -> Iterator[None]:
    """Restore the original streams for a full-screen program, which cleans its own text."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = beneath(sys.stdout), beneath(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def beneath(stream: Any) -> Any:
    """Stream that a cleaned one writes to."""
    return stream.beneath if isinstance(stream, CleanStream) else stream


def print_line(text: str) -> None:
    """Write one line of data to stdout."""
    print(one_line(text))


def say(text: str) -> None:
    """Write one line of a message to stderr."""
    with stderr_may_fail():
        print(one_line(text), file=sys.stderr)


def say_passing(text: str) -> None:
    """Write a line that the next one replaces, if stderr is a terminal."""
    out = beneath(sys.stderr)
    out.write(f"\r\x1b[K{one_line(text)}")
    out.flush()


def write_json(value: Any, *, indent: int = 0) -> None:
    """Write `value` (structs, dicts, lists) to stdout as JSON: on one line, or indented."""
    sys.stdout.write(json_document(value, indent).decode() + "\n")


def write_file(path: Path, text: str | bytes) -> None:
    """Write the file that the user named, and its name to stderr. Raises `NotStoredError`."""
    from planner.durable import write_out

    write_out(path, text)
    say(f"written to {path}")
