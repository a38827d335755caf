"""Log of predictions on disk: an append-only file of lines beside the measurements, made at the first write."""

from __future__ import annotations

from pathlib import Path

from planner.durable import WriteResult, refused
from planner.hardware.measurements.line_file import LineFile
from planner.predictions.entries import LAYOUT, LogLine, Pair, Predicted, Seen, decoded, encoded
from planner.units import counted

FILE_NAME = "predictions.jsonl"
MOST_OPEN = 500
"""Plans without a result that are kept; older ones are not read."""


class PredictionLog:
    """Predictions of this user and their results. A file that cannot be used disables the log alone: see `warning`."""

    def __init__(self, folder: Path) -> None:
        """Nothing is opened or made yet."""
        self._file = LineFile(folder / FILE_NAME, encoded([LogLine(layout=LAYOUT)]))
        self._predicted: dict[str, Predicted] = {}
        self._seen: dict[tuple[str, str], Seen] = {}
        self._later = False
        self.warning = ""
        """Fault of the file, in a sentence."""

    @property
    def path(self) -> Path:
        """File, which need not exist."""
        return self._file.path

    @property
    def begun(self) -> bool:
        """True if there is a file."""
        return self.path.is_file()

    def predicted(self) -> list[Predicted]:
        """Predictions, the oldest first: all with a result, and the latest without one."""
        self._read()
        closed = {name for name, _ in self._seen}
        waiting = [one.id for one in self._predicted.values() if one.id not in closed][-MOST_OPEN:]
        kept = closed | set(waiting)
        return [one for one in self._predicted.values() if one.id in kept]

    def seen(self) -> dict[tuple[str, str], Seen]:
        """(id, figure) -> its last result."""
        self._read()
        return dict(self._seen)

    def pairs(self) -> list[Pair]:
        """Every figure that was predicted and seen, in the order they were seen."""
        self._read()
        found = []
        for (name, figure), seen in self._seen.items():
            said = self._predicted.get(name)
            if said is None or figure not in said.figures:
                continue
            model = said.request.get("model")
            found.append(
                Pair(
                    id=name,
                    kind=said.kinds.get(figure, figure),
                    origin=said.origin,
                    gpu=str(said.request.get("gpu", "")),
                    gpus=said.request.get("gpus") or 1,
                    model=model if isinstance(model, str) else "",
                    predicted=said.figures[figure],
                    seen=seen.value,
                    at=seen.at,
                    source=seen.source,
                )
            )
        return sorted(found, key=lambda one: one.at)

    def add(self, predicted: Predicted) -> WriteResult:
        """Keep a prediction; the same one is kept once."""
        self._read()
        return self._write([] if predicted.id in self._predicted else [LogLine(predicted=predicted)])

    def add_seen(self, *seen: Seen) -> WriteResult:
        """Keep results."""
        return self._write([LogLine(seen=one) for one in seen])

    def remove(self, *names: str) -> tuple[int, WriteResult]:
        """Forget predictions and their results; how many predictions went."""
        self._read()
        known = tuple(name for name in dict.fromkeys(names) if name in self._predicted)
        return len(known), self._write([LogLine(removed=known)] if known else [])

    def _write(self, lines: list[LogLine]) -> WriteResult:
        self._read()
        if not lines:
            return WriteResult(self.path, "")
        if self._later:
            return WriteResult(self.path, self.warning)
        try:
            self._file.append(lambda: encoded(lines))
        except OSError as error:
            return refused(self.path, error)
        self._read()
        return WriteResult(self.path, "")

    def _read(self) -> None:
        try:
            replaced, text = self._file.read_new()
        except OSError as error:
            self.warning = f"{self.path} cannot be read: {error.strerror or error}"
            return
        if replaced:
            self._predicted.clear()
            self._seen.clear()
        lines, damaged = decoded(text)
        if damaged:
            self.warning = f"{self.path}: {counted(damaged, 'line')} cannot be read: left out"
        for line in lines:
            self._take(line)

    def _take(self, line: LogLine) -> None:
        if line.layout is not None and line.layout > LAYOUT:
            self._later, self.warning = True, f"{self.path} is of a later version of this program"
        if self._later:
            return
        if line.predicted is not None:
            self._predicted[line.predicted.id] = line.predicted
        if line.seen is not None:
            self._seen[line.seen.id, line.seen.figure] = line.seen
        for name in line.removed:
            self._predicted.pop(name, None)
            for key in [key for key in self._seen if key[0] == name]:
                del self._seen[key]
