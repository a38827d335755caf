"""A marker in every text of every record comes out of every command and form of output without doing anything."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import msgspec
import pytest
import yaml
from hostile_sample import GPU, MARKER, TRACE, HostileSession, marked
from measurement_sample import measurement
from published_sample import SERVED, write
from repository import RunPlanner

import planner.session
from planner.cli.emit import FORMS
from planner.cli.emit.frames import sky_names
from planner.cli.root import root
from planner.observe.telemetry.recording import read_demo
from planner.predictions.entries import Predicted, Range

PRESET = f"mine{MARKER}"
SMALL = ("--gpu", GPU, "--set", "max_gpus=2")
SAID = f"said{MARKER}"
"""A prediction that was kept."""
ASKED: dict[str, tuple[str, ...]] = {
    "plan": (PRESET, *SMALL, "--set", "providers="),
    "report": (PRESET, *SMALL),
    "study": ("--gpu", GPU, "--prices", "cheapest", "--svg", "chart.svg"),
    "watch": ("--replay", "seen.jsonl", "--once"),
    "rightsize": ("--replay", "seen.jsonl"),
    "estimate": ("lines.jsonl",),
    "gpus list": (),
    "gpus show": (GPU,),
    "models list": (),
    "models show": ("qwen3-0.6b",),
    "presets list": (),
    "presets show": (PRESET,),
    "offers list": (),
    "offers show": (GPU,),
    "ceilings": (GPU,),
    "measurements list": (),
    "measurements show": ("r1",),
    "measurements export": (),
    "measurements remove": ("r1",),
    "measurements import": ("theirs.json",),
    "predictions list": (),
    "predictions seen": (SAID, f"step_s{MARKER}=2"),
    "predictions import": ("lines.jsonl",),
    "predictions remove": (SAID,),
    "validate": ("published",),
    "doctor": (),
    "fit": ("--gpu", GPU, "--top", "4", "--set", "model=llama-3.1-70b"),
    "guide": ("--answers", "answers.json"),
    "portfolio": ("stock.toml",),
    "replay": ("trace.jsonl", PRESET, "--gpu", GPU),
}
"""What each command is asked."""
ELSEWHERE = {
    "bench": "measures",
    "offers refresh": "asks the network",
    "schema": "holds our own words alone",
    "help": "holds our own words alone",
    "completion": "is a shell's",
    "open": "is plan",
    "mcp": "speaks to a program",
    "traffic": "shows figures alone",
}
EXPECTED = {"measurements import": 2, "measurements remove": 2, "predictions import": 2}
"""Exit codes other than 0: what is imported is refused, and what is removed has to be confirmed."""
OUTPUTS = ("--json", "--csv", "--markdown", "--html", "--prometheus")


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its words."""
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))
    else:
        yield " ".join(path), group


def asked() -> Iterator[tuple[str, tuple[str, ...]]]:
    """(command, its option for a form of output): the table or text first, then each form it has."""
    for name, command in commands(root):
        if name not in ELSEWHERE:
            spellings = {
                spelling
                for option in command.params
                for spelling in option.opts
                if isinstance(option, click.Option) and (option.is_flag or spelling == "--emit")
            }
            yield name, ()
            yield from ((name, (form,)) for form in OUTPUTS if form in spellings)
            forms = (form for form in FORMS if form not in {"jobset", "kueue"})  # of jobs that end, and the preset is a service
            yield from ((name, ("--emit", form)) for form in (forms if "--emit" in spellings else ()))


@cache
def hostile_recording() -> bytes:
    seen = (marked(one, frozenset({"state", "nvml_state", "taken_at"})) for one in read_demo().snapshots[:8])
    return b"".join(msgspec.json.encode(one) + b"\n" for one in seen)


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch, isolated: Path, tmp_path: Path) -> None:
    """Every record by a stranger: those of the session, a recording, an export, a preset, measurements that were kept."""
    monkeypatch.setattr(planner.session, "Session", HostileSession)
    folder = isolated / "config" / "gpu-planner" / "presets"
    folder.mkdir(parents=True)
    wanted = {"title": MARKER, "description": MARKER, "model": "qwen3-0.6b", "task": "serve", "engine": "vllm"}
    lines = [f"{key} = {json.dumps(text)}" for key, text in wanted.items()]
    (folder / f"{PRESET}.toml").write_text("\n".join([*lines, "input_tokens = 100", "output_tokens = 50", "concurrency = 4"]))
    (tmp_path / "seen.jsonl").write_bytes(hostile_recording())
    (tmp_path / "lines.jsonl").write_text("\n".join(json.dumps({"id": MARKER, key: MARKER}) for key in ("model", "gpu", MARKER)))
    write(tmp_path / "published", SERVED | {"gpu": GPU, "framework": MARKER}, SERVED | {"gpu": GPU}, name=f"some{MARKER}.csv")
    monkeypatch.setitem(sky_names(), GPU, "L40S")
    session = HostileSession.open()
    session.store.add_all([marked(measurement(device=GPU), frozenset({"point", "kind", "dtype", "taken_at", "run", "status"}))], [])
    (tmp_path / "stock.toml").write_text(
        f'gpus = [{json.dumps(GPU)}]\n[[workload]]\nname = {json.dumps(f"chat{MARKER}")}\nset = {{model = "qwen3-0.6b", task = "generate"}}\n'
    )
    asked, figures = {"model": MARKER, "task": "train", "gpu": GPU}, {f"step_s{MARKER}": Range(1.0, 0.5, 2.0)}
    said = Predicted(id=SAID, at="2026-11-22", origin="plan", request=asked, figures=figures, basis="spec", version=MARKER)
    session.predictions.add(said)
    (tmp_path / "answers.json").write_text(json.dumps({"task": "serve", "model": "qwen3-0.6b", "daily_users": 100}))
    call = {"input_length": 100, "output_length": 50, "hash_ids": [1], MARKER: MARKER}
    (tmp_path / "trace.jsonl").write_text("\n".join(json.dumps(call | {"timestamp": 1000 * second}) for second in range(60)))
    given = json.loads(json.dumps({"schema": MARKER, MARKER: MARKER}))
    (tmp_path / "theirs.json").write_text(json.dumps(given))


def harmless(text: str) -> None:
    """No sign that a terminal obeys or a reader does not see, and no line that a stranger began."""
    for sign in set(text) - {"\n"}:
        assert unicodedata.category(sign) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}, repr(sign)
    assert "\n# =cmd" not in text, "a line of a stranger"


def as_json(text: str) -> None:
    """What is read back is what was there."""
    texts = list(leaves([json.loads(line) for line in text.splitlines()] if text.count("\n{") else json.loads(text)))
    assert any(MARKER in one for one in texts)
    assert not any("\ufffd" in one for one in texts)


def leaves(value: object) -> Iterator[str]:
    """Every text inside."""
    if isinstance(value, dict):
        yield from (text for pair in value.items() for one in pair for text in leaves(one))
    elif isinstance(value, list):
        yield from (text for one in value for text in leaves(one))
    elif isinstance(value, str):
        yield value


def as_csv(text: str) -> None:
    """Assert that every line has as many cells, and no formula among them."""
    head, *lines = csv.reader(io.StringIO(text))
    assert lines
    assert {len(line) for line in lines} == {len(head)}
    for cell in (cell for line in lines for cell in line):
        assert cell[:1] not in "=+-@" or not cell or float(cell) < 0, cell


def as_markdown(text: str) -> None:
    """No HTML, no heading of a stranger, as many cells in every line of a table."""
    outside = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"(?<!\\)<[a-z]", outside)
    assert not [line for line in outside.splitlines() if line.startswith("#") and not re.match(r"#{1,3} \S", line)]
    tables = [block.splitlines() for block in outside.split("\n\n") if block.lstrip().startswith("|")]
    assert tables
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1


def as_html(text: str) -> None:
    """Our own elements alone."""
    seen = set(re.findall(r"<([a-z]\w*)", text))
    assert seen >= {"html", "h1", "table", "td"}
    assert "b" not in seen
    assert "&lt;b&gt;" in text


def as_yaml(text: str) -> None:
    """What a parser reads has the keys of the tool alone; a stranger's text is in comments."""
    known = {
        "apiVersion",
        "kind",
        "metadata",
        "spec",
        "name",
        "num_nodes",
        "resources",
        "envs",
        "setup",
        "run",
        "service",
        "workdir",
        *("type", "image", "port", "replicas", "env", "commands"),
    }
    for document in yaml.safe_load_all(text):
        assert document.keys() <= known
    assert TRACE in text


READ = {"--json": as_json, "--csv": as_csv, "--markdown": as_markdown, "--html": as_html}
READ |= dict.fromkeys(("sky", "kubernetes", "lws", "kserve", "dstack"), as_yaml)
"""How a form of output is read back; the others are for people, or have no escapes of their own."""


def test_every_command_is_asked() -> None:
    assert ASKED.keys() | ELSEWHERE.keys() == {name for name, _ in commands(root)} | {"open"}


@pytest.mark.process
@pytest.mark.parametrize(("name", "form"), [pytest.param(*one, id=" ".join((one[0], *one[1]))) for one in asked()])
def test_strangers_text_does_nothing(
    name: str, form: tuple[str, ...], hostile: None, run_planner: RunPlanner, tmp_path: Path
) -> None:
    done = run_planner(*name.split(), *ASKED[name], *form, COLUMNS="4000")
    assert done.returncode == EXPECTED.get(name, 0), done.stderr
    said = done.stdout + done.stderr
    harmless(said)
    assert TRACE in re.sub(r"\\([\[<|])", r"\1", html.unescape(said)), "the marker did not arrive"
    read = READ.get(form[-1] if form else "")
    if read is not None and (done.stdout or done.returncode == 0):
        read(done.stdout)
    elif name == "report":
        as_markdown(done.stdout)
    if (chart := tmp_path / "chart.svg").exists():
        assert [one for one in ET.fromstring(chart.read_text()).itertext() if TRACE in one]  # noqa: S314  # our own file
