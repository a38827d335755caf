"""Random command lines over every option of every command, found by introspection: an exit code that is documented, and words on stderr."""

from __future__ import annotations

import io
import json
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from fuzz_lines import MOST_S
from hostile_files import make_hostile_files

from planner.cli import main
from planner.cli.root import root
from planner.session import Session
from planner.workload.tasks import Workload

NUMBERS = (
    *(
        "0",
        "1",
        "2",
        "3",
        "8",
        "16",
        "100",
        "-1",
        "1e3",
        "1e400",
        "1e308",
        "1e-320",
        "nan",
        "inf",
        "-inf",
        "0.5",
        "0x10",
        "1_000",
        "１２",
        "",
        " ",
    ),
    *("9" * 30, "9" * 5000, "1e", "--", "true", "null", "{}", "[]", "[" * 2000, "{mean=0.1}", "{mean=600, p50=400, p95=2000}"),
)
WORDS = (
    "",
    "x",
    "-",
    "é",
    "a" * 5000,
    "\x1b[31mX\x07\x9b1m",
    "<b>",
    "$(id)",
    "a\nb",
    "=1+1",
    "..",
    "/",
    "~",
    "~nosuch/x",
    "%s{0}",
    "[bold]",
    "\\",
    "'",
    "\udc80",
)
URLS = ("http://127.0.0.1:9/x", "ftp://x", "file:///nosuch", "http://", "http://[", "http://a b/", "x")
ONLY = {"watch": ["--once"], "bench": ["--emit", "sky"], "rightsize": ["--demo", "--seconds", "1"]}
"""Options without which a command would run on, or measure."""


class Commands:
    """Makes command lines and runs them in this process; `found` holds what is wrong, with the words."""

    def __init__(self, seed: int, folder: Path, left_out: frozenset[str] = frozenset()) -> None:
        """Options in `left_out` are not given."""
        self.rng, self._left_out = random.Random(seed), left_out
        session = Session.open(state=folder, config=folder)
        hostile = folder / "hostile"
        hostile.mkdir()
        self._folder = folder
        self._known = {
            "model": session.models.names(),
            "gpu": tuple(gpu.name for gpu in session.gpus.all),
            "preset": session.presets.names(),
            "file": tuple(make_hostile_files(hostile, self.rng)),
            "key": (
                *(one.name for one in msgspec.structs.fields(Workload)),
                "targets.p95_request_s",
                "targets.deadline_h",
                "lora.rank",
                "a.b",
                ".",
            ),
        }
        self._commands = list(_commands(root, (), None))
        self.found: list[str] = []
        self.tried = Counter[str]()

    def round(self) -> None:
        """Run the next command line."""
        self.judge(self._line())

    def judge(self, words: list[str]) -> None:
        """Run it, and note how it ends where it should not end so."""
        self.tried["commands"] += 1
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors="surrogateescape", write_through=True) for _ in range(2))
        began_s = time.process_time()
        with pytest.MonkeyPatch.context() as patch, Path(os.devnull).open(encoding="utf-8") as empty:
            patch.chdir(self._folder)
            for name, stream in (("stdin", empty), ("stdout", out), ("stderr", err)):
                patch.setattr(sys, name, stream)
            code = int(main(argv=words))
        took_s = time.process_time() - began_s
        said, told = (stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err))
        if fault := _fault(words, code, said, told, took_s):
            self.found.append(f"{fault}: {words!r}"[:2000])

    def _line(self) -> list[str]:
        names, command = self.rng.choice(self._commands)
        options = [one for one in command.params if isinstance(one, click.Option)]
        words, arguments = list(names), []
        for one in command.params:
            if isinstance(one, click.Argument) and (one.required or self.rng.random() < 0.6):
                arguments += [self._value(names, one) for _ in range(self.rng.choice((0, 1, 2)) if one.nargs == -1 else 1)]
        for one in self.rng.sample(options, min(len(options), self.rng.choice((0, 1, 1, 2, 3)))):
            words += [one.opts[0]] if one.is_flag or one.count else [one.opts[0], self._value(names, one)]
        words += ONLY.get(names[0], []) if not set(ONLY.get(names[0], [])) & set(words) else []
        if names[:2] == ("offers", "refresh"):
            words = [*names, "--source", str(self._folder / "hostile" / "prices")]
        if self.rng.random() < 0.03:
            words.insert(self.rng.randrange(len(words)), self.rng.choice(("--nosuch", "-h", "--version", "", "--json")))
        return [word.replace("\0", "") for word in [*words, *arguments] if word not in self._left_out]

    def _value(self, names: tuple[str, ...], one: click.Parameter) -> str:
        name, rng = one.name or "", self.rng
        if rng.random() < 0.12:
            return rng.choice(WORDS)
        if isinstance(one.type, click.Choice):
            return str(rng.choice(one.type.choices))
        if isinstance(one.type, (click.types.FloatParamType, click.types.IntParamType)):
            return rng.choice(NUMBERS) if rng.random() < 0.5 else str(rng.randint(1, 20))
        if name in {"source", "server"}:
            return rng.choice(URLS)
        if name == "settings":
            return f"{rng.choice(self._known['key'])}={rng.choice((*NUMBERS, *WORDS, rng.choice(self._known['model']), 'fp8', 'train', 'serve'))}"
        if name in {"out", "record", "svg", "csv"}:
            return str(self._folder / rng.choice(("o.md", "o.html", "o.json", "o.svg", "o", "no/o.md", f"{'a' * 300}.md")))
        if isinstance(one.type, click.Path) or name == "python":
            return rng.choice(self._known["file"])
        kind = next(
            (kind for kind in ("gpu", "model", "preset") if kind in (name, name.removesuffix("s"), names[0].removesuffix("s"))),
            "preset",
        )
        return rng.choice(self._known[kind]) if rng.random() < 0.8 else rng.choice(self._known["file"])


def _fault(words: list[str], code: int, said: str, told: str, took_s: float) -> str:
    """What is wrong with how a command ended; '' where nothing is."""
    faults = (
        ("a traceback", "Traceback" in told or code not in {0, 1, 2, 74}),
        (f"{took_s:.0f} s", took_s > MOST_S),
        ("exit code 2 without words", code == 2 and not told.strip()),
        ("exit code 2 with data", code == 2 and bool(said.strip())),
        ("a number that is none", re.search(r"(?<![\w./-])(nan|inf)(?![\w./-])", said) is not None and "--emit" not in words),
    )
    if found := next((name for name, wrong in faults if wrong), ""):
        return f"{found} (exit code {code}, {told.strip().splitlines()[-1:]})"
    if "--json" in words and code < 2 and said.startswith("{") and "\n" not in said.strip():
        try:
            json.loads(said, parse_constant=_refuse)
        except ValueError as error:
            return f"no JSON: {error}"
    return ""


def _refuse(word: str) -> Any:
    raise ValueError(word)


def _commands(
    group: click.Group, names: tuple[str, ...], above: click.Context | None
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that call it."""
    context = click.Context(group, info_name=names[-1] if names else "gpu-planner", parent=above)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, (*names, name), context)
        elif command is not None:
            yield (*names, name), command
