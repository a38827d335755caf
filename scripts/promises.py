"""Run the command printed below each lever of a plan, and count those whose result differs from the lever's text.

    python scripts/promises.py [PRESET…]

Every preset (or those named) is planned as given, where levers are savings, and on one RTX 4090, where most have no solution and levers
lead to one. Exit code 1: a promise is broken. All presets take a few minutes.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from program import run_program

Run = Callable[..., Any]
"""Takes arguments of `gpu-planner`; its result has `stdout`."""
SMALL = ("--gpu", "RTX 4090", "--set", "max_gpus=1")
"""A GPU that most workloads do not fit on."""


def checked(run: Run, arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each lever of `plan` with these arguments: its text, and the different result of its command ('': none)."""
    levers = _answer(run, "plan", *arguments).get("levers", [])
    printed = run("plan", *arguments, COLUMNS="200").stdout.splitlines()
    commands = [line.strip() for line in printed if line.strip().startswith("gpu-planner plan ")]
    if len(commands) != len(levers):
        yield f"{len(levers)} levers", f"{len(commands)} commands are printed"
    for lever, command in zip(levers, commands, strict=False):
        rows = [row for row in _answer(run, *shlex.split(command)[1:])["rows"] if row["rank"] and not row.get("here")]
        yield lever["text"], _broken(lever, rows)


def _broken(lever: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The differences between `rows`, the solutions of the lever's command, and the lever's text."""
    places = [(row["gpu"], row["answer"]["layout"]["gpus"]) for row in rows]
    after = lever["after"]
    if lever["gpu"] is None:
        return f"it was said not to be enough, but {places[0]} does" if rows else ""
    if after is None:
        return "" if (lever["gpu"], lever["gpus"]) in places else f"solutions are {places}"
    if not rows:
        return "there is no solution"
    cost = rows[0]["usd_per_h"]["value"]
    kept = places[0] == (after["gpu"], after["gpus"]) and abs(cost - after["usd_per_h"]) <= 1e-9 * cost
    return "" if kept else f"{places[0]} at {cost} $/h ranks first"


def _answer(run: Run, *arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def main(presets: Sequence[str]) -> int:
    """Print every broken promise and their number."""
    kept = broken = 0
    with tempfile.TemporaryDirectory() as home:

        def run(*arguments: str, **variables: str) -> Any:
            return run_program(arguments, home, **variables)

        for preset in presets or [one["name"] for one in _answer(run, "presets", "list")]:
            for arguments in ([preset], [preset, *SMALL]):
                for text, wrong in checked(run, arguments):
                    kept, broken = (kept, broken + 1) if wrong else (kept + 1, broken)
                    if wrong:
                        print(f"{shlex.join(arguments)}: {text}: {wrong}")
    print(f"{kept} promises are kept, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
