"""Fuzz for some minutes, each kind of input in turn, with new seeds: `make fuzz MINUTES=10`. Prints counts; exits with 1 for findings."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzz_commands import Commands
from fuzz_documents import Documents
from fuzz_lines import Lines

KINDS: dict[str, type[Lines | Documents | Commands]] = {"lines": Lines, "documents": Documents, "commands": Commands}
ROUND_S = 20.0
"""Of one kind with one seed."""


def main(minutes: float, names: list[str]) -> int:
    """Fuzz the kinds called `names`, all where none is."""
    until_s, counts, found = time.monotonic() + 60 * minutes, Counter[str](), list[str]()
    while time.monotonic() < until_s:
        for name in names or KINDS:
            seed = random.randrange(2**32)
            with tempfile.TemporaryDirectory() as folder:
                home = {f"XDG_{kind}_HOME": f"{folder}/{kind}" for kind in ("CONFIG", "STATE", "DATA", "CACHE")}
                os.environ.update(home, HF_HUB_OFFLINE="1", COLUMNS="120")
                fuzz, ends_s = KINDS[name](seed, Path(folder)), min(until_s, time.monotonic() + ROUND_S)
                while time.monotonic() < ends_s:
                    counts[name] += fuzz.round()
            found += [f"{name}, seed {seed}: {one}" for one in fuzz.found]
    print("\n".join(found))
    print(
        f"{sum(counts.values()):,} inputs ({', '.join(f'{count:,} {name}' for name, count in counts.items())}), {len(found)} findings"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if sys.argv[1:] else 1.0, sys.argv[2:]))
