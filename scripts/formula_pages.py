"""A page of formulas and constants, from the docstrings of the code that computes with them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PARTS = {
    "memory": "Bytes",
    "performance": "Seconds",
    "money": "Dollars",
}
"""Folder of planner/engine -> its heading."""
LONGEST_VALUE = 60
HEAD = """# Formulas and constants

What an estimate is computed by, from the code itself: each formula's function with its units and source, and each constant with the
reason for its value. Attributes of a candidate are columns: a formula is written once for all candidates.
"""


def page(root: Path) -> str:
    """The page, as Markdown."""
    lines = [HEAD]
    for folder, heading in PARTS.items():
        lines.append(f"\n## {heading}\n")
        for path in sorted((root / "planner" / "engine" / folder).rglob("*.py")):
            lines += _of_module(path, path.relative_to(root))
    return "\n".join(lines) + "\n"


def _of_module(path: Path, name: Path) -> Iterator[str]:
    """Section of one module; nothing where it has neither formulas nor constants."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    entries = [*_constants(module), *_functions(module)]
    if entries:
        title, _, more = (ast.get_docstring(module) or name.stem).partition("\n")
        yield f"### {_plain(title).rstrip('.')}\n"
        yield f"`{name}`" + (f": {_plain(more)}" if more.strip() else "") + "\n"
        yield from entries
        yield ""


def _constants(module: ast.Module) -> Iterator[str]:
    """Numbers with a docstring below them."""
    for one, below in zip(module.body, module.body[1:], strict=False):
        if isinstance(one, ast.Assign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            name, value = ast.unparse(one.targets[0]).strip("()"), ast.unparse(one.value)
            given = f" = {value}" if len(value) <= LONGEST_VALUE else ""
            if not name.startswith("_"):
                yield f"- `{name}{given}`: {_plain(str(below.value.value))}"


def _functions(module: ast.Module) -> Iterator[str]:
    """Public functions and what their docstrings say."""
    for one in module.body:
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_") and (said := ast.get_docstring(one)):
            arguments = ", ".join(argument.arg for argument in [*one.args.args, *one.args.kwonlyargs])
            yield f"- `{one.name}({arguments})`: {_plain(said)}"


def _plain(said: str) -> str:
    """A docstring on one line, with nothing that Markdown takes for its own."""
    text = " ".join(said.split())
    return text.replace("*", r"\*").replace("<", "&lt;").replace("[", r"\[")
