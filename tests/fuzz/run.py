"""Fuzz for some minutes, each kind of input in turn, with new seeds: `make fuzz MINUTES=10`. Exits with 1 for findings.

Counts and findings so far go to stderr every few seconds, so that a run that is stopped has told what it tried; the last of them to stdout.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from fuzz_commands import Commands
from fuzz_documents import Documents
from fuzz_lines import Lines
from fuzz_readers import Readers

from planner.observe.benchmark.description import LONGEST_S

ROUND_S = 20.0
"""Seconds of one kind with one seed."""
TOLD_EVERY_S = 5.0
HANG_S = LONGEST_S + 120.0
"""Beyond what a description of a model by its own code may take: time after which a round that does not return is a finding: where it waits is told, and the run ends."""


class Fuzzer(Protocol):
    """Makes inputs of one kind and judges what comes of them."""

    tried: Counter[str]
    """Inputs so far, by kind."""
    found: list[str]
    """Findings, each with its input."""

    def round(self) -> None:
        """Try the next inputs."""


KINDS: dict[str, Callable[[int, Path], Fuzzer]] = {"lines": Lines, "documents": Documents, "readers": Readers, "commands": Commands}


class Progress:
    """Counts and findings of a run so far, told to stderr at most every few seconds."""

    def __init__(self) -> None:
        self.tried = Counter[str]()
        self.findings = 0
        self._places = set[tuple[str, ...]]()
        """Lines of the traces that were told."""
        self._told_s = self._began_s = time.monotonic()

    def tell(self, now: Counter[str], seed: str) -> None:
        """Say how far the run is, where that was not said just now; `now`: inputs of the seed that is being tried."""
        if time.monotonic() >= self._told_s + TOLD_EVERY_S:
            self._told_s = time.monotonic()
            print(f"{self._told_s - self._began_s:,.0f} s, {seed}: {self.text(now)}", file=sys.stderr, flush=True)

    def found(self, findings: list[str], seed: str) -> None:
        """Say what was found, at once; of one place in the code once."""
        self.findings += len(findings)
        for one in findings:
            place = tuple(line for line in one.splitlines() if line.lstrip().startswith("File "))
            if not place or place not in self._places:
                print(f"FOUND {seed}: {one}", file=sys.stderr, flush=True)
            self._places.add(place)

    def text(self, now: Counter[str]) -> str:
        """'1,200 inputs (1,000 lines, 200 commands), 0 findings'."""
        counts = self.tried + now
        kinds = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
        return f"{counts.total():,} inputs ({kinds}), {self.findings:,} findings"


def main(minutes: float, names: list[str]) -> int:
    """Fuzz the kinds called `names`, all where none is."""
    progress, until_s = Progress(), time.monotonic() + 60 * minutes
    with contextlib.suppress(KeyboardInterrupt):
        while time.monotonic() < until_s:
            for name in names or KINDS:
                _one_seed(name, min(until_s, time.monotonic() + ROUND_S), progress)
    print(progress.text(Counter()))
    return 1 if progress.findings else 0


def _one_seed(name: str, until_s: float, progress: Progress) -> None:
    """Try inputs of one kind with one seed in a folder of their own."""
    seed = random.randrange(2**32)
    with tempfile.TemporaryDirectory() as folder:
        home = {f"XDG_{kind}_HOME": f"{folder}/{kind}" for kind in ("CONFIG", "STATE", "DATA", "CACHE")}
        os.environ.update(home, HF_HUB_OFFLINE="1", COLUMNS="120")
        fuzzer, told = KINDS[name](seed, Path(folder)), 0
        try:
            while time.monotonic() < until_s:
                faulthandler.dump_traceback_later(HANG_S, exit=True)
                fuzzer.round()
                faulthandler.cancel_dump_traceback_later()
                progress.found(fuzzer.found[told:], f"{name} {seed}")
                told = len(fuzzer.found)
                progress.tell(fuzzer.tried, f"{name} {seed}")
        finally:
            progress.tried += fuzzer.tried


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if sys.argv[1:] else 1.0, sys.argv[2:]))
