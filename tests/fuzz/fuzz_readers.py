"""Files and answers that others wrote, changed at random: each reader takes them, or refuses them in words, and no figure is NaN."""

from __future__ import annotations

import dataclasses
import math
import random
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from fuzz_lines import MOST_S
from mutations import changed
from reader_kinds import ReaderKinds

from planner.errors import UserError

TOGETHER = 40


class Readers:
    """Changes samples and reads them; `found` holds what is wrong, with the kind and the content."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.kinds = ReaderKinds(folder)
        self.found: list[str] = []
        self.tried = Counter[str]()

    def round(self) -> None:
        """Read the next contents of each kind."""
        for kind, samples in self.kinds.samples.items():
            for _ in range(self.kinds.together.get(kind, TOGETHER)):
                self.judge(kind, changed(self.rng.choice(samples), self.rng, binary=kind in self.kinds.binary))

    def judge(self, kind: str, content: bytes) -> None:
        """Read one content as its kind, and note what should not have come of it."""
        self.tried[kind] += 1
        began_s = time.process_time()
        try:
            found = self.kinds.read[kind](content)
            msgspec.json.encode(found, enc_hook=str)
            fault = next(_not_finite(found, ""), "")
        except UserError as told:
            fault = "" if str(told).strip() else "a problem without words"
        except Exception:  # noqa: BLE001  # that is what is looked for
            fault = traceback.format_exc(limit=-4)
        if (took_s := time.process_time() - began_s) > MOST_S:
            fault = f"{took_s:.0f} s"
        if fault:
            self.found.append(f"{kind}: {fault} {content[:1500]!r}")


def _not_finite(found: Any, place: str) -> Iterator[str]:
    """Where a figure of an answer is no number."""
    if isinstance(found, float) and not math.isfinite(found):
        yield f"{place} = {found}"
    elif isinstance(found, msgspec.Struct):
        for name in found.__struct_fields__:
            yield from _not_finite(getattr(found, name), f"{place}.{name}")
    elif dataclasses.is_dataclass(found):
        for one in dataclasses.fields(found):
            yield from _not_finite(getattr(found, one.name), f"{place}.{one.name}")
    elif isinstance(found, dict):
        for key, one in found.items():
            yield from _not_finite(one, f"{place}.{key}")
    elif isinstance(found, list | tuple):
        for one in found:
            yield from _not_finite(one, place)
