"""Gather the pages of the documentation site: docs/, README, a page of every command, of formulas, and the JSON Schemas.

Usage: site_pages.py FOLDER. A configuration for mkdocs, with the order of the pages, is written next to FOLDER. Links to files of the
repository that are not pages are replaced by their words; a link to a file that does not exist is an error.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from planner.cli import main as run_planner
from planner.cli.schema import SUBJECTS

PARTS = {"memory": "Bytes", "performance": "Seconds", "money": "Dollars"}
"""Folder of planner/engine -> its heading."""
LONGEST_VALUE = 60
FORMULAS_HEAD = """# Formulas and constants

What an estimate is computed by, from the code itself: each formula's function with its units and source, and each constant with the
reason for its value. Attributes of a candidate are columns: a formula is written once for all candidates.
"""


def formulas(root: Path) -> str:
    """The formulas, as Markdown."""
    lines = [FORMULAS_HEAD]
    for folder, heading in PARTS.items():
        lines.append(f"\n## {heading}\n")
        for path in sorted((root / "planner" / "engine" / folder).rglob("*.py")):
            lines += _of_module(path, path.relative_to(root))
    return "\n".join(lines) + "\n"


def _of_module(path: Path, name: Path) -> Iterator[str]:
    """Section of one module; empty where it has neither formulas nor constants."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    entries = [*_constants(module), *_functions(module)]
    if entries:
        title, _, more = (ast.get_docstring(module) or name.stem).partition("\n")
        yield f"### {_plain(title).rstrip('.')}\n"
        yield f"`{name}`" + (f": {_plain(more)}" if more.strip() else "") + "\n"
        yield from entries
        yield ""


def _constants(module: ast.Module) -> Iterator[str]:
    """Numbers followed by a docstring."""
    for one, below in zip(module.body, module.body[1:], strict=False):
        if isinstance(one, ast.Assign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            name, value = ast.unparse(one.targets[0]).strip("()"), ast.unparse(one.value)
            given = f" = {value}" if len(value) <= LONGEST_VALUE else ""
            if not name.startswith("_"):
                yield f"- `{name}{given}`: {_plain(str(below.value.value))}"


def _functions(module: ast.Module) -> Iterator[str]:
    """Public functions and their docstrings."""
    for one in module.body:
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_") and (said := ast.get_docstring(one)):
            arguments = ", ".join(argument.arg for argument in [*one.args.args, *one.args.kwonlyargs])
            yield f"- `{one.name}({arguments})`: {_plain(said)}"


def _plain(said: str) -> str:
    """A docstring on one line, with Markdown's special characters escaped."""
    text = " ".join(said.split())
    return text.replace("*", r"\*").replace("<", "&lt;").replace("[", r"\[")


ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
GROUPS: dict[str, tuple[str, ...]] = {
    "Tutorial": ("guide/tutorial.md",),
    "How to": ("guide/usage.md", "guide/serving.md", "guide/measuring.md", "guide/telemetry.md", "guide/*.md"),
    "Reference": ("reference/*.md", "glossary.md"),
    "How sure": ("evidence/accuracy.md", "evidence/*.md"),
    "How it is built": ("architecture.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "decisions/*.md"),
}
"""Heading -> its pages in order; each page belongs to the first heading that names it, and all others to the last."""


def output_of(*words: str) -> str:
    """Output of the program."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out):
        code = run_planner(argv=words)
    assert code == 0, words
    out.flush()
    out.seek(0)
    return out.read()


def gather(pages: Path) -> None:
    """Rebuild `pages`."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("README.md"))  # replaced by the navigation
    for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, pages / name)
    shutil.copy(ROOT / "README.md", pages / "index.md")
    (pages / "reference").mkdir(exist_ok=True)
    run_planner(argv=["schema", "--all", str(pages / "schemas")])
    (pages / "reference" / "commands.md").write_text(output_of("help", "--markdown"))
    (pages / "reference" / "formulas.md").write_text(formulas(ROOT))
    lines = ["# JSON Schemas", "", "Schemas of all inputs and outputs; `gpu-planner schema SUBJECT` prints them.", ""]
    lines += [f"- [{subject}](../schemas/{subject}.json)" for subject in SUBJECTS]
    (pages / "reference" / "schemas.md").write_text("\n".join(lines) + "\n")


def with_links(page: Path, pages: Path, wrong: list[str]) -> str:
    """The text of `page` with its links to pages; other links are replaced by their words."""
    place = page.relative_to(pages)
    outside = place.name in {"index.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} and place.parent == Path()
    home = ROOT if outside else (ROOT / "docs" / place).parent

    def link(found: re.Match[str]) -> str:
        image, words, target, anchor = found[1], found[2], found[3], found[4] or ""
        if "://" in target or target.startswith("mailto:") or place.parts[0] == "reference":
            return found[0]
        path = (home / target).resolve()
        if not path.exists():
            wrong.append(f"{place}: {target} does not exist")
            return words
        inside = path.relative_to(ROOT / "docs") if path.is_relative_to(ROOT / "docs") else path.relative_to(ROOT)
        inside = Path("index.md") if inside == Path("README.md") else inside
        if not (pages / inside).is_file():
            return words
        return f"{image}[{words}]({os.path.relpath(pages / inside, page.parent)}{anchor})"

    return LINK.sub(link, page.read_text())


def navigation(pages: Path) -> list[dict[str, list[str]] | str]:
    """The pages by heading."""
    rest = {str(path.relative_to(pages)) for path in pages.rglob("*.md")} - {"index.md"}
    found: list[dict[str, list[str]] | str] = ["index.md"]
    for heading, patterns in GROUPS.items():
        own = [
            name
            for pattern in patterns
            for name in sorted(rest)
            if Path(name).match(pattern) and Path(name).parent == Path(pattern).parent
        ]
        own = list(dict.fromkeys(own))
        rest -= set(own)
        found.append({heading: own + (sorted(rest) if heading == list(GROUPS)[-1] else [])})
    return found


def main() -> int:
    """Write pages and configuration; 1: a link has no target."""
    pages = Path(sys.argv[1]).resolve()
    gather(pages)
    wrong: list[str] = []
    for page in sorted(pages.rglob("*.md")):
        page.write_text(with_links(page, pages, wrong))
    inherited = os.path.relpath(ROOT / "mkdocs.yml", pages.parent)
    configuration = {"INHERIT": inherited, "docs_dir": str(pages), "nav": navigation(pages)}
    pages.with_suffix(".yml").write_text(json.dumps(configuration, indent=2))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
