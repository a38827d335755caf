"""Whether a change of the code changed an answer: records the planner's answers, and compares two recordings byte for byte.

    python scripts/same_answers.py record before.json --requests requests.jsonl
    python scripts/same_answers.py record after.json --requests requests.jsonl
    python scripts/same_answers.py compare before.json after.json

A recording holds the answer of `estimate` to every line of the requests (JSON lines), `plan --json` of every preset, also with its
memory and its time in detail, and `study --json`. This machine's own rows are left out, because they depend on its clock.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from program import ROOT, run_program

PRESETS = sorted((ROOT / "presets" / "workloads").rglob("*.toml"))
MOST_SHOWN = 20


def main() -> int:
    """Record or compare, depending on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="write what the planner answers now")
    record.add_argument("file", type=Path)
    record.add_argument("--requests", type=Path, help="requests for `estimate`, as JSON lines")
    compare = commands.add_parser("compare", help="exit 1 and name the differences if there are any")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "record":
        options.file.write_text(json.dumps(answers(options.requests), indent=0))
        return 0
    return differences(json.loads(options.before.read_text()), json.loads(options.after.read_text()))


def answers(requests: Path | None) -> dict[str, str]:
    """Every answer as text, by its question."""
    questions: dict[str, list[str]] = {"study": ["study", "--json"]}
    for path in PRESETS:
        for detail in ([], ["--memory"], ["--time"]):
            questions[" ".join(["plan", path.stem, *detail])] = ["plan", path.stem, *detail, "--json"]
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(os.cpu_count()) as pool:
        printed = pool.map(lambda arguments: ask(arguments, home), questions.values())
        found = {question: _elsewhere(text) for question, text in zip(questions, printed, strict=True)}
        if requests is not None:
            lines = requests.read_text()
            for line, answer in zip(lines.splitlines(), ask(["estimate", "-"], home, lines).splitlines(), strict=True):
                found[f"estimate {line}"] = answer
    return found


def ask(arguments: list[str], home: str, lines: str | None = None) -> str:
    """Output of `gpu-planner`, without the user's own files."""
    done = run_program(arguments, home, lines or "")
    return done.stdout if done.returncode in {0, 1} else f"exit {done.returncode}\n{done.stderr}"


def _elsewhere(text: str) -> str:
    """A plan without the rows of this machine; any other answer unchanged."""
    if not text.startswith("{"):
        return text
    answer: dict[str, Any] = json.loads(text)
    if "rows" not in answer:
        return text
    rows = [row for row in answer["rows"] if not row.get("here")]
    return json.dumps(answer | {"rows": rows, "counts": answer["counts"] | {"shown": len(rows)}})


def differences(before: dict[str, str], after: dict[str, str]) -> int:
    """Exit status: 0 where both recordings are equal; each question with a different answer is named."""
    changed = [question for question in sorted(before.keys() | after.keys()) if before.get(question) != after.get(question)]
    for question in changed[:MOST_SHOWN]:
        print(question[:200], *_first_difference(before.get(question, ""), after.get(question, "")), sep="\n  ")
    print(f"{len(changed)} of {len(before)} answers differ.")
    return int(bool(changed))


def _first_difference(one: str, other: str) -> tuple[str, str]:
    place = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, place - 60)
    return one[start : place + 60] or "(no answer)", other[start : place + 60] or "(no answer)"


if __name__ == "__main__":
    sys.exit(main())
