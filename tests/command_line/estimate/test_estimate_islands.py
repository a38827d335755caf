"""A line of `estimate` is an island: whatever it holds, it has an answer in its place, and the others have theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from planner.cli.estimate import forks
from planner.cli.estimate import lines as lines_room
from planner.cli.estimate.command import arriving_lines
from planner.cli.estimate.lines import LONGEST_LINE, answer_lines, encoder
from planner.session import Session
from planner.workload.tasks import Request

GOOD = {"model": "gpt2", "gpu": "T4", "task": "generate", "dtype": "fp16"}
HOSTILE: tuple[tuple[bytes | dict[str, Any], str], ...] = (
    (b"[" * 100_000, "nested more than 64"),
    (b'{"id":' + b"[" * 400 + b"]" * 400 + b"}", "nested more than 64"),
    (b"x" * (2 << 20), "longer than 1024 KiB"),
    (b"\xff", "is not JSON"),
    ({"model": "~nosuch/x"}, "home directory"),
    ({"model": "./a\0b"}, "null"),
    ({"model": "./" + "a" * 300}, "name too long"),
    ({"model": "a" * 300}, "is not a known model"),
    ({"model": "/dev/zero"}, "is a device"),
    ({"model": "./"}, "config.json"),
    ({"batch": 10**309}, "a whole number from 1 to 1,000,000,000"),
    ({"batch": 0}, "0 is not accepted; it has to be a whole number from 1 to 1,000,000,000"),
    ({"price_usd_per_gpu_h": 1e-320}, "a number from 0.000001 to 1,000,000,000"),
    ({"memory_fraction": 1.5}, "a number from 0.01 to 1"),
    ({"title": "a" * 501}, "of at most 500 characters"),
    ({"input_tokens": {"mean": 0.3}}, "input_tokens.mean: 0.3 is not accepted; it has to be a number from 0.5 to 1,000,000,000"),
    ({"input_tokens": {"mean": 100, "p50": 300}}, "p50 = 300 is impossible where the mean is 100; it is at most 200"),
    ({"input_tokens": {"mean": 100, "p50": 90, "p95": 80}}, "p50 = 90 is more than p95 = 80"),
    ({"model": {"model_type": "llama", "num_hidden_layers": 4 * 10**9}}, "a whole number from 1 to 10,000"),
)


def stream(session: Session, lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(encoder.encode(answer)) for answer in answer_lines(session, lines)]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session.open(state=tmp_path, config=tmp_path)


def test_hostile_lines_are_refused_in_their_place(session: Session) -> None:
    asked = [given if isinstance(given, bytes) else json.dumps(GOOD | given).encode() for given, _ in HOSTILE]
    lines = [line for number, one in enumerate(asked) for line in (one, json.dumps({"id": number, **GOOD}).encode())]
    answers = stream(session, lines)
    assert [answer["id"] for answer in answers[1::2]] == list(range(len(HOSTILE)))
    assert all(answer["fits"] for answer in answers[1::2])
    for answer, (_, words) in zip(answers[::2], HOSTILE, strict=True):
        assert words.casefold() in answer["error"].casefold()


def test_possible_lengths_are_accepted(session: Session) -> None:
    lengths = ({"mean": 0.5}, {"mean": 10, "p50": 0}, {"mean": 10, "p50": 1e-320}, {"mean": 600, "p50": 400, "p95": 2000})
    for answer in stream(session, [json.dumps(GOOD | {"task": "serve", "input_tokens": one}).encode() for one in lengths]):
        assert "error" not in answer


@pytest.mark.parametrize("fault", ["raises", "hangs", "is infinite"])
def test_what_nobody_thought_of_costs_one_line(fault: str, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that fails in the engine is refused, whatever the batch it came in; the others are answered as without it."""
    monkeypatch.setattr(lines_room, "LONGEST_S", 0.2)
    alone = stream(session, [json.dumps({"id": 1, **GOOD}).encode()])
    evaluate = Session.estimate

    def faulty(self: Session, requests: list[Request]) -> list[Any]:
        found: list[Any] = evaluate(self, requests)
        for place, request in enumerate(requests):
            while request.id == "bad" and fault == "hangs":
                pass
            if request.id == "bad" and fault == "raises":
                raise RecursionError("too far")
            if request.id == "bad":
                found[place] = msgspec.structs.replace(found[place], flop_per_token=float("inf"))
        return found

    monkeypatch.setattr(Session, "estimate", faulty)
    lines = [json.dumps({"id": 1 if number != 3 else "bad", **GOOD}).encode() for number in range(6)]
    answers = stream(session, lines)
    assert answers[:3] + answers[4:] == alone * 5
    words = {"raises": "RecursionError: too far", "hangs": "took more than 0.2 s", "is infinite": "flop_per_token is out of range"}[
        fault
    ]
    assert answers[3]["id"] == "bad"
    assert words in answers[3]["error"]


@pytest.mark.process
def test_copies_of_the_process_answer_hostile_lines_too(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "FEWEST_LINES", 4)
    shared = forks.Shared(lambda lines: encoder.encode_lines(answer_lines(session, lines)), 2)
    lines = [json.dumps({"id": number, **GOOD, "batch": 0 if number % 7 == 0 else 1}).encode() for number in range(60)]
    lines[20:20] = [b"[" * 100_000, b"\x00", b'{"id":' + b"[" * 400]
    try:
        answers = [json.loads(line) for part in shared(lines) for line in part.splitlines()]
    finally:
        shared.end()
    assert [answer["id"] for answer in answers] == [*range(20), None, None, None, *range(20, 60)]


def test_lines_arrive_whole_without_a_mark_and_cut_where_they_are_too_long(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b'\xef\xbb\xbf{"id":1}\n' + b"x" * (3 << 20) + b'\n{"id":2}')
    with file.open("rb") as source:
        lines = [line for part in arriving_lines(source.fileno(), 100) for line in part]
    assert lines[0] == b'{"id":1}'
    assert lines[-1] == b'{"id":2}'
    assert len(lines) == 3
    assert len(lines[1]) > LONGEST_LINE
