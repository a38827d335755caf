"""Text of strangers: what is taken out, what stays, and how JSON keeps it; the gate of the streams; cells and Markdown."""

from __future__ import annotations

import io
import json
import os
import sys
import unicodedata
from pathlib import Path

import msgspec
import pytest
from hostile_sample import MARKER
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from repository import RunPlanner
from telemetry_sample import snapshot_of

from planner.cli.terminal.clean_console import CleanConsole
from planner.cli.terminal.streams import clean_streams, print_line, say, say_passing, write_json
from planner.cli.watch.table import telemetry_text
from planner.observe.snapshot import DeviceSnapshot, ProcessSnapshot
from planner.present.cells import Code, Paragraph, Part, Points, Section, text_table
from planner.present.drawing.chart import Chart, Curve, LinearAxis
from planner.present.files.csv_text import csv_text
from planner.present.files.document import as_markdown
from planner.text import REPLACEMENT, clean, escaped_json, json_document, one_line
from widgets.crash_report import crash_text
from widgets.state.state_files import LAST_FAULT

EVERY = "".join(map(chr, range(sys.maxunicode + 1)))
JOINERS = "\u200c\u200d"
"""Scripts and emoji need them."""


@pytest.mark.sweep
def test_no_sign_that_is_obeyed_or_unseen_passes_and_every_letter_does() -> None:
    for sign in EVERY:
        category, direction = unicodedata.category(sign), unicodedata.bidirectional(sign)
        obeyed = category in {"Cc", "Cs", "Zl", "Zp"} or direction in {
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        }
        if obeyed or sign in "\u200e\u200f\u061c\ufeff":
            assert one_line(sign) in {" ", "�"}, hex(ord(sign))
            assert clean(sign) == (sign if sign in "\t\n" else "�"), hex(ord(sign))
            assert clean(f"a\n{sign}") == f"a\n{clean(sign)}", hex(ord(sign))
        elif category[0] in "LMNPSZ" or sign in JOINERS:
            assert one_line(sign) == clean(sign) == sign, hex(ord(sign))
    assert clean("a\r\nb\rc") == "a\nb�c"


def written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


@pytest.mark.sweep
@given(st.text())
def test_json_is_read_back_as_it_was(text: str) -> None:
    document = escaped_json(msgspec.json.encode({text: text}))
    assert json.loads(document) == {text: text}
    assert clean(document.decode()) == document.decode()


@pytest.mark.sweep
def test_json_escapes_every_sign() -> None:
    text = "".join(sign for sign in EVERY if unicodedata.category(sign) != "Cs")
    document = escaped_json(msgspec.json.encode(text)).decode()
    assert document == clean(document)
    assert json.loads(document) == text


def test_json_has_a_spelling_for_what_no_encoding_has() -> None:
    half = os.fsdecode(b"a\xffb")
    document = json_document({half: [half, {"path": Path(half).name}], "n": 1.5}, indent=1)
    assert json.loads(document) == {f"a{REPLACEMENT}b": [f"a{REPLACEMENT}b", {"path": f"a{REPLACEMENT}b"}], "n": 1.5}


def test_json_by_lines_is_that_of_each_line() -> None:
    lines = [b'{"a": "plain"}', '{"a": "…\u200b"}'.encode(), b"", b'{"a": "\x7f"}']
    assert escaped_json(b"\n".join(lines)) == b"\n".join(escaped_json(line) for line in lines)
    assert escaped_json(lines[1]) == '{"a": "…\\u200b"}'.encode()


def test_the_gate_lets_the_programs_own_signs_through_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="") for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    with clean_streams():
        sys.stdout.write(MARKER + "\n")
        print_line(MARKER)
        write_json(MARKER)
        CleanConsole(40).print(MARKER)
        sys.stderr.writelines([MARKER])
        say(MARKER)
        say_passing(MARKER)
    assert (sys.stdout, sys.stderr) == tuple(streams)
    out, err = map(written, streams)
    assert "\x1b" not in out
    assert set(err.replace("\r\x1b[K", "", 1)) & set("\x1b\x07\r") == set()
    assert json.loads(out.splitlines()[3]) == MARKER
    assert out.count("[red]") == 4, "no markup"


def test_the_trace_of_a_fault_is_clean(tmp_path: Path) -> None:
    text = crash_text(ValueError(MARKER), tmp_path)
    assert clean(text) == text
    assert "[red]" in (tmp_path / LAST_FAULT).read_text()


@pytest.mark.parametrize("sign", "=+-@＝\t\r")
def test_a_cell_is_no_formula(sign: str) -> None:
    text = f"{sign}cmd|'/c calc'!A0"
    (line,) = csv_text(["a"], [[text], [f" {text}"]]).splitlines()[1:2]
    assert line.lstrip('"')[:1] in {"'", " ", "�"}


def test_a_number_is_itself() -> None:
    assert csv_text(["a", "b", "c", "d"], [[-1.5, "-1.5", None, "+3e9"]]).splitlines()[1] == "-1.5,-1.5,,+3e9"


def test_markdown_reads_as_it_stands() -> None:
    strange = ["# a", "> a", "- a", "1. a", "```", "=====", "<b>", "&lt;", "[a](b)", "| a", "a\n# b", "    a", "\\<b>", "~~~"]
    parts: list[Part] = [
        *map(Paragraph, strange),
        Points(strange),
        text_table(("<i>", "|"), [(one, one) for one in strange]),
        Code("a\n```\nb"),
        Chart("# a", LinearAxis(0, 1), LinearAxis(0, 1), "x", "y", [Curve("```\n```", [(0, 0), (1, 1)])], note="<b>"),
    ]
    text = as_markdown([Section("a\n# b", parts)])
    markdown = MarkdownIt("gfm-like", {"linkify": False})
    kinds = {token.type for token in markdown.parse(text)} | {
        inner.type for token in markdown.parse(text) for inner in token.children or ()
    }
    assert kinds & {"blockquote_open", "ordered_list_open", "html_block", "html_inline", "link_open", "code_block", "hr"} == set()
    assert [token.tag for token in markdown.parse(text) if token.type == "heading_open"] == ["h2"]
    assert [token.type for token in markdown.parse(text)].count("fence") == 2
    said = [inner.content for token in markdown.parse(text) for inner in token.children or () if inner.type == "text"]
    for one in (" ".join(one.split()) for one in strange):
        assert said.count(one) >= 3, one


def test_the_table_of_telemetry_is_clean() -> None:
    process = ProcessSnapshot(pid=7, kind="compute", memory_bytes=1e9, name=MARKER, command=f"python\0{MARKER}", user=MARKER)
    gpu = DeviceSnapshot(index=0, uuid=MARKER, name=MARKER, state="ok", processes=(process,))
    text = telemetry_text(msgspec.structs.replace(snapshot_of(1.0, gpu), source=MARKER), 400).plain
    assert clean(text) == text
    assert text.count("[red]") >= 3
    assert "\n# =cmd" not in text


@pytest.mark.parametrize(
    "arguments",
    [
        *[("plan", MARKER), ("plan", f"{MARKER}.toml"), ("plan", "--set", f"{MARKER}=1"), ("plan", "--set", f"model={MARKER}")],
        *[("plan", "--gpu", MARKER), ("plan", f"--{MARKER}"), (MARKER,), ("gpus", MARKER), ("gpus", "show", MARKER)],
        *[("watch", "--replay", MARKER, "--once"), ("watch", "--source", MARKER, "--once"), ("report", "--out", MARKER)],
        *[("estimate", MARKER), ("measurements", "import", MARKER), ("measurements", "show", MARKER), ("schema", MARKER)],
        *[("bench", "--python", MARKER), ("validate", MARKER), ("study", "--prices", MARKER)],
    ],
    ids=repr,
)
def test_what_was_given_is_told_back_clean(arguments: tuple[str, ...], run_planner: RunPlanner) -> None:
    done = run_planner(*arguments)
    assert done.returncode in {1, 2}
    assert clean(done.stderr) == done.stderr
    assert "\n# =cmd" not in done.stderr
