"""Lines of a large file, and the unusable ones among them: a few are counted, many are an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from planner.errors import Problem, UserError
from planner.reading import open_file

LONGEST_LINE = 1 << 22
"""Maximum number of bytes of a line; a request over a million tokens in blocks of 16 has a quarter of that."""
MOST_BYTES = 8 << 30
FEW = 0.01
"""Largest share of a file's lines that may be unusable."""
MOST_LISTED = 5


class NumberedLines:
    """Non-blank lines of the file at `path`, with their numbers; `wrong` counts unusable ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read = 0
        self.problems: list[Problem] = []
        self.wrongs = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        size = 0
        with open_file(self.path) as file:
            for number in range(1, 1 << 62):
                line = file.readline(LONGEST_LINE + 1)
                size += len(line)
                if not line:
                    return
                if len(line) > LONGEST_LINE:
                    raise UserError(
                        self._problem(number, f"is longer than {LONGEST_LINE >> 20} MiB, the most that is read from a line.")
                    )
                if size > MOST_BYTES:
                    raise UserError(Problem(str(self.path), "", f"is larger than {MOST_BYTES >> 30} GiB, the most that is read."))
                stripped = line.strip().removeprefix(b"\xef\xbb\xbf")
                if stripped:
                    self.read += 1
                    yield number, stripped

    def wrong(self, number: int, message: str) -> None:
        """Record that line `number` is unusable."""
        self.wrongs += 1
        if len(self.problems) < MOST_LISTED:
            self.problems.append(self._problem(number, message))

    def _problem(self, number: int, message: str) -> Problem:
        return Problem(f"{self.path}, line {number}", "", message)

    def unusable(self) -> dict[str, int]:
        """Reason -> unusable lines; raises `UserError` naming the first of them where there are many."""
        if not self.wrongs:
            return {}
        if self.wrongs > max(1, FEW * self.read) or self.wrongs == self.read:
            more = self.wrongs - len(self.problems)
            rest = [Problem(str(self.path), "", f"{more:,} more lines cannot be read.")] if more else []
            raise UserError([*self.problems, *rest])
        return {f"not readable (the first: {self.problems[0]})": self.wrongs}
