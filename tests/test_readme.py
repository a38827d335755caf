"""README and the rest of the paper: every command, target and file they name exists."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from each_case import each_case
from repository import ROOT
from samples import PAGES, SAMPLE, with_samples

PAPERS = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/evidence/reliability.md",
    "docs/guide/usage.md",
    "docs/guide/serving.md",
    "docs/guide/measuring.md",
    "docs/guide/troubleshooting.md",
    "docs/guide/agents.md",
    "docs/guide/cluster.md",
    "docs/guide/traffic.md",
    "docs/guide/tutorial.md",
]


def code_lines(paper: str) -> list[str]:
    """Lines of the fenced shell blocks, prompts and comments removed."""
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```", (ROOT / paper).read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line.removeprefix("$ ").split("  #")[0].strip() for line in lines if line.strip()]


def planner_commands() -> list[str]:
    """Every `gpu-planner …` of the papers, those inside a pipe too."""
    commands = []
    for paper in PAPERS:
        inline = re.findall(r"`(gpu-planner [^`]*)`", (ROOT / paper).read_text())
        piped = [
            part.strip() for line in code_lines(paper) for part in line.split(" | ") if part.strip().startswith("gpu-planner ")
        ]
        commands += [command for command in [*inline, *piped] if "…" not in command]
    return sorted(set(commands))


@each_case("command", planner_commands())
def test_every_command_shown_parses(command: str) -> None:
    from planner.cli.root import root

    words = shlex.split(command.split(" > ", maxsplit=1)[0])[1:]
    context = click.Context(root, info_name="gpu-planner")
    name, found, rest = (
        root.resolve_command(context, words)
        if words[0] in root.list_commands(context)
        else ("open", root.get_command(context, "open"), words)
    )
    while isinstance(found, click.Group):
        inner = click.Context(found, parent=context)
        if not rest or rest[0] not in found.list_commands(inner):
            rest = ["list", *rest]
        name, found, rest = found.resolve_command(inner, rest)
    assert found is not None
    found.make_context(name, list(rest), parent=context, resilient_parsing=False)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_make_target_shown_exists(paper: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)`", (ROOT / paper).read_text()))
    named |= {line.split()[1] for line in code_lines(paper) if re.match(r"make [a-z]", line)}
    assert named <= targets
    assert named or paper.startswith("docs/")


@pytest.mark.parametrize("paper", [*PAPERS, "CHANGELOG.md", "docs/README.md", "docs/decisions/README.md"])
def test_every_file_linked_exists(paper: str) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / paper).read_text())
    local = [link for link in links if "://" not in link]
    assert not [link for link in local if not (ROOT / paper).parent.joinpath(link).exists()]


@pytest.mark.process
@pytest.mark.parametrize("paper", PAGES)
@pytest.mark.process
def test_every_sample_is_what_the_program_prints(paper: str) -> None:
    """Where this fails, `make samples` prints the samples anew. How wide columns are depends on this machine's name."""
    page = (ROOT / paper).read_text()
    assert SAMPLE.search(page)
    assert with_samples(page).split() == page.split(), "make samples prints them anew"


def test_make_explains_every_target_people_use() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    explained = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    assert set(phony.split()) == explained
