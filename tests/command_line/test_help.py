"""Every command and option in one go, as a tree, as Markdown, and as a manual page that man can lay out."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from repository import RunPlanner

from planner.cli.commands import COMMANDS
from planner.cli.schema import SUBJECTS


@pytest.fixture(scope="module")
def every() -> list[str]:
    return [f"gpu-planner {name}" for name in COMMANDS]


def test_the_tree_has_every_command(run_planner: RunPlanner) -> None:
    lines = run_planner("help", "--tree").stdout.splitlines()
    names = [line.split()[0] for line in lines]
    assert names[0] == "gpu-planner"
    assert set(COMMANDS) <= set(names)
    assert "    refresh" in [line[:11] for line in lines]
    assert all(line.rstrip() == line for line in lines)


def test_markdown_has_every_command_and_option(run_planner: RunPlanner, every: list[str]) -> None:
    page = run_planner("help", "--markdown").stdout
    heads = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert set(every) <= set(heads)
    assert len(heads) == len(set(heads))
    assert "`--objective" in page
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)


def test_one_command_alone(run_planner: RunPlanner) -> None:
    assert run_planner("help", "offers", "refresh").stdout == run_planner("offers", "refresh", "--help").stdout
    assert run_planner("help", "plan", "--markdown").stdout.count("\n## ") == 1
    wrong = run_planner("help", "offers", "refrsh")
    assert wrong.returncode == 2
    assert "'refresh'" in wrong.stderr


def test_schemas_of_all_subjects_are_written(run_planner: RunPlanner, tmp_path: Path) -> None:
    assert run_planner("schema", "--all", str(tmp_path / "made" / "schemas")).returncode == 0
    written = {path.stem: path.read_text() for path in (tmp_path / "made" / "schemas").iterdir()}
    assert set(written) == set(SUBJECTS)
    assert written["replay"] == run_planner("schema", "replay").stdout
    for wrong in ((), ("plan", "--all", str(tmp_path))):
        assert run_planner("schema", *wrong).returncode == 2


@pytest.mark.process
def test_the_manual_page_is_laid_out_without_a_warning(run_planner: RunPlanner) -> None:
    page = run_planner("help", "--man", SOURCE_DATE_EPOCH="0").stdout
    assert page.startswith('.TH GPU-PLANNER 1 "1970-01-01" "gpu-planner ')
    assert not [
        line for line in page.splitlines() if line.startswith(("'", ".")) and not re.match(r"\.(TH|ad|SH|SS|TP|PP|B)\b", line)
    ]
    groff = shutil.which("groff") or shutil.which("man")
    if groff is None:
        pytest.skip("neither groff nor man is here")
    options = ["-man", "-Tutf8", "-ww"] if groff.endswith("groff") else ["--warnings", "-l", "-"]
    done = subprocess.run([groff, *options], input=page, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0
    assert not done.stderr
    assert "Fetch today" in done.stdout
