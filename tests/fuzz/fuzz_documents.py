"""Random presets and texts of `--set`: each is a workload, or a problem that says what is wrong."""

from __future__ import annotations

import json
import random
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from fuzz_lines import MOST_S
from fuzz_values import Values
from hostile_files import make_hostile_files

from planner.cli.plan.options import parse_settings
from planner.errors import UserError
from planner.session import Session
from planner.workload.changes import fields_of
from planner.workload.tasks import Workload

TOGETHER = 100
WORDS = (
    "nan",
    "-inf",
    "inf",
    "1e400",
    "[" * 2000,
    "{a=" * 300,
    "9" * 5000,
    "2026-01-01",
    "0x1f",
    '"""',
    "\0",
    "\ufeff",
    "{mean=0.1}",
    "=",
    "",
)


class Documents:
    """Makes documents and reads them; `found` holds what is wrong, with the text."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.session = Session.open(state=folder, config=folder)
        self.values = Values(self.rng, self.session)
        self.found: list[str] = []
        self.tried = Counter[str]()
        self._base = self.session.presets.load("llama-3.1-70b-chat-service").workload
        self._file = folder / "fuzzed.toml"
        (folder / "hostile").mkdir()
        for path in make_hostile_files(folder / "hostile", self.rng):
            self._judge(path, lambda path=path: self._read(Path(path)))
            self._judge(path, lambda path=path: self.session.models.config(path))

    def round(self) -> None:
        """Read the next documents."""
        for number in range(TOGETHER):
            self.judge(self._preset() if number % 3 == 0 else self._setting())

    def judge(self, text: str) -> None:
        """Read `text` as a preset where it has lines, else as `--set`."""
        self.tried["presets" if "\n" in text else "settings"] += 1
        if "\n" in text:
            self._file.write_bytes(text.encode("utf-8", "surrogatepass"))
            self._judge(text, lambda: self._read(self._file))
        else:
            self._judge(text, lambda: self.session.workload(fields_of(self._base, parse_settings([text])), "a"))

    def _read(self, path: Path) -> Any:
        preset = self.session.presets.load(path)
        return self.session.workload(fields_of(preset.workload, {}), str(path))

    def _judge(self, text: str, read: Any) -> None:
        began_s = time.process_time()
        try:
            read()
        except UserError as told:
            if not str(told).strip():
                self.found.append(f"a problem without words: {text[:1500]!r}")
        except Exception:  # noqa: BLE001  # that is what is looked for
            self.found.append(f"{traceback.format_exc(limit=-3)} {text[:1500]!r}")
        if time.process_time() - began_s > MOST_S:
            self.found.append(f"{time.process_time() - began_s:.0f} s for {text[:1500]!r}")

    def _preset(self) -> str:
        fields = self.values.table(Workload, self.rng.choice((0.05, 0.2, 0.5)))
        text = "".join(f"{json.dumps(key)} = {self._toml(value)}\n" for key, value in fields.items() if value is not None) + "\n"
        if self.rng.random() < 0.1:
            place = self.rng.randrange(len(text))
            text = text[:place] + self.rng.choice(WORDS) + text[place + self.rng.choice((0, 1, 9)) :]
        return text

    def _setting(self) -> str:
        fields = self.values.table(Workload, 0.1)
        key = self.rng.choice(
            [*fields, "targets.p95_request_s", "targets.burst", "lora.rank", "a.b.c", ".", "", "model.x", "a" + ".a" * 2000]
        )
        value = self.rng.choice((self.rng.choice(WORDS), self._toml(fields.get(key, 3)), str(fields.get(key, "x"))))
        return f"{key}={value}".replace("\n", " ")

    def _toml(self, value: Any) -> str:
        if self.rng.random() < 0.02:
            return self.rng.choice(WORDS)
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(key)} = {self._toml(one)}" for key, one in value.items() if one is not None) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(self._toml(one) for one in value if one is not None) + "]"
        return json.dumps(value)
