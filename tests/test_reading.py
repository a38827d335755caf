"""What every reader says of files, options and texts that cannot be used: one clear message, and never a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from repository import RunPlanner

from planner.cli.options import Number
from planner.errors import UserError
from planner.present.command_line import value_of
from planner.reading import MOST_DEPTH, parse_toml, read_file, read_json, read_text, read_toml, user_path

SERVICE = 'model = "gpt2"\ntask = "train"\n'


def test_only_regular_files_of_some_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "large").write_bytes(b"x" * 1001)
    cases = {
        tmp_path: "is a folder",
        tmp_path / "pipe": "is a pipe",
        Path("/dev/zero"): "is a device",
        tmp_path / "loop": "cannot be read",
        tmp_path / "missing": "cannot be read: No such file",
        Path("a\0b"): "cannot be read: .*embedded null",
        Path("a" * 300): "cannot be read: File name too long",
        tmp_path / "large": "is larger than",
    }
    for path, words in cases.items():
        with pytest.raises(UserError, match=words) as told:
            read_file(path, most_bytes=1000)
        assert len(told.value.problems) == 1
    with pytest.raises(UserError, match="home directory"):
        user_path("~nosuch/x")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 3000, "nested more than"),
        (f"a = {'{a=' * 400}1{'}' * 400}", "nested more than"),
        ("a" + ".a" * 3000 + " = 1", "nested more than"),
        ("a = " + "9" * 5000, "is not valid TOML"),
        ("a = [", "is not valid TOML"),
    ],
)
def test_documents_are_bounded_in_depth(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        parse_toml(text, "a.toml")
    assert isinstance(value_of(text.removeprefix("a = ")), str)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("b = 1\na = 1\na = 2\n", "a key is given twice (at line 3, column 6): 'a = 2'."),
        ('a = "open\n', "a text has no closing quote (at line 1, column 10): 'a = \"open'."),
        ("a = 4k", "Expected newline or end of document after a statement (at line 1, column 6): 'a = 4k'."),
        ("a = [1,\n", "Invalid value (at end of document)."),
    ],
)
def test_the_line_that_is_no_toml_is_shown(text: str, words: str) -> None:
    with pytest.raises(UserError) as wrong:
        parse_toml(text, "a.toml")
    assert str(wrong.value.problems[0]) == f"a.toml: is not valid TOML: {words}"


def test_documents_as_deep_as_that_and_with_a_mark_are_read(tmp_path: Path) -> None:
    deep = "[" * (MOST_DEPTH - 1) + "]" * (MOST_DEPTH - 1)
    assert parse_toml(f"a = {deep}", "")
    (tmp_path / "a.toml").write_text(f"\ufeff{SERVICE}", encoding="utf-8")
    assert read_toml(tmp_path / "a.toml") == {"model": "gpt2", "task": "train"}
    (tmp_path / "a.json").write_text('\ufeff{"a": 1}', encoding="utf-8")
    assert read_json(tmp_path / "a.json") == {"a": 1}
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not text in UTF-8"):
        read_text(tmp_path / "a.txt")


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-inf", "1e400", "-1", "1e10", "x"])
def test_an_option_takes_finite_numbers_of_its_range(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Number(0, 1e9).convert(text, None, None)
    assert Number(0, 1e9).convert("1e9", None, None) == 1e9


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("plan", "--set", "targets.p95_request_s=nan"),
            "nan is not accepted; it has to be a number from 0.000001 to 1,000,000,000",
        ),
        (("plan", "--set", "train_tokens=nan"), "nan is not accepted; it has to be a number from 1 to 1e+18"),
        (("plan", "--set", "request_rate_per_s=inf"), "inf is not accepted; it has to be a number from 0.000001 to 1,000,000,000"),
        (("study", "--price", "L4=nan"), "'L4=nan' is not accepted"),
        (("rightsize", "--demo", "--price", "nan"), "'nan' is not in the range"),
        (("rightsize", "--demo", "--hosting", "inf"), "inf is not in the range"),
        (("rightsize", "--demo", "--seconds", "nan"), "'nan' is not in the range"),
        (("offers", "refresh", "--timeout", "nan"), "'nan' is not in the range"),
        (("offers", "refresh", "--source", "http://["), "neither a folder nor"),
        (("plan", "~nosuch/x.toml"), "home directory"),
        (("plan", "name.toml"), "of at most 500 characters"),
        (("plan", "many.toml"), "unknown key"),
    ],
)
def test_the_command_line_says_what_is_accepted(
    arguments: tuple[str, ...], words: str, run_planner: RunPlanner, tmp_path: Path
) -> None:
    (tmp_path / "name.toml").write_text(f'{SERVICE}title = "{"a" * 501}"\n')
    (tmp_path / "many.toml").write_text(SERVICE + "".join(f"x{number} = 1\n" for number in range(5000)))
    done = run_planner(*arguments)
    assert done.returncode == 2
    assert not done.stdout
    assert words in done.stderr
    assert len(done.stderr.splitlines()) <= 51


@pytest.mark.process
def test_folders_and_interpreters_that_cannot_be_are_said(run_planner: RunPlanner) -> None:
    long = "a" * 300
    for arguments, words in (
        (("--config", long), "File name too long"),
        (("rightsize", "--demo", "--state", long), "File name too long"),
        (("schema", "--all", "/dev/null"), "is not a folder"),
        (("schema", "--all", long), "cannot be created"),
    ):
        done = run_planner(*arguments)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    for python in ("~nosuch/x", long):
        done = run_planner("doctor", "--python", python)
        assert (done.returncode, "There is no " in " ".join(done.stdout.split())) == (0, True), done.stdout
