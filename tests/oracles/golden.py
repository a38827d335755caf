"""Golden values: what an oracle computed once, committed beside the tests, and looked up instead of computed again.

`make oracles` computes all of them anew and fails where one differs. A key holds a digest of the whole question, so a question
that is new or was changed finds no golden value and is computed on the spot: slower, and never wrong.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ORACLES, FOLDER = ROOT / "tests" / "oracles", ROOT / "tests" / "golden"


class Golden:
    """The golden values of one oracle."""

    def __init__(self, name: str, *sources: Path) -> None:
        """Read them. `sources` are the files that hold the oracle: where one was edited, its values have to be computed again."""
        self.path = FOLDER / f"{name}.json"
        self.sources = sources
        kept = json.loads(self.path.read_text()) if self.path.exists() else {"sources": {}, "values": {}}
        self.made_from: Mapping[str, str] = kept["sources"]
        self.values: Mapping[str, Any] = kept["values"]

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        """The value of `key`; computed where none is committed."""
        return self.values[key] if key in self.values else as_json(compute())

    def digests(self) -> dict[str, str]:
        """Name and digest of each file that holds the oracle, as they are now."""
        return {path.name: digest(without_docstrings(path.read_text())) for path in self.sources}

    def write(self, values: Mapping[str, Any]) -> None:
        """Put `values` in the place of the committed ones, one line each."""
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(as_json(values[key]))}" for key in sorted(values))
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(f'{{\n"sources": {json.dumps(self.digests())},\n"values": {{\n{lines}\n}}\n}}\n')


def as_json(value: Any) -> Any:
    """`value` as it reads back from a file, so that a computed one equals a golden one."""
    return json.loads(json.dumps(value))


def without_docstrings(source: str) -> str:
    """The lines of `source` outside its docstrings, because a better sentence is no reason to compute for minutes."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for line in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[line] = ""
    return "\n".join(line for line in lines if line)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
