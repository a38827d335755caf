"""Random lines of `estimate`: each gets one answer, in order and in time, that states only numbers there are."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from pathlib import Path

import msgspec
from fuzz_values import Values

from planner.cli.estimate.lines import answer_lines
from planner.session import Session
from planner.workload.tasks import Request

TOGETHER = 100
MOST_S = 10.0
PIECES = (
    b"{",
    b"[",
    b"]",
    b'"',
    b"1e999",
    b"NaN",
    b"-",
    b"\\u0000",
    b"\x00",
    b",",
    b"[" * 100_000,
    b"9" * 5000,
    b"\xef\xbb\xbf",
    b"\xff",
)


class Lines:
    """Makes lines and judges their answers; `found` holds what is wrong, with the line."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.session = Session.open(state=folder, config=folder)
        self.values = Values(self.rng, self.session)
        self.found: list[str] = []
        self.tried = Counter[str]()

    def round(self) -> None:
        """Judge the next lines."""
        self.judge([self._line(number) for number in range(TOGETHER)])

    def judge(self, lines: list[bytes]) -> None:
        """Note every line whose answer is not as it should be."""
        lines = [line for line in lines if line.strip()]
        self.tried["lines"] += len(lines)
        began_s = time.process_time()
        answers = answer_lines(self.session, lines)
        took_s = time.process_time() - began_s
        if len(answers) != len(lines):
            self.found.append(f"{len(answers)} answers to {len(lines)} lines, such as {lines[0][:400]!r}")
        if took_s > MOST_S + 0.1 * len(lines):
            self.found.append(f"{took_s:.0f} s for {len(lines)} lines, such as {lines[0][:400]!r}")
        for line, answer in zip(lines, answers, strict=False):
            if fault := _fault(line, msgspec.json.encode(answer)):
                self.found.append(f"{fault}: {line[:1500]!r}")

    def _line(self, number: int) -> bytes:
        fields = {"id": number} | self.values.table(Request, self.rng.choice((0.02, 0.05, 0.1, 0.3)))
        fields["id"] = number if self.rng.random() < 0.9 else fields["id"]
        line = bytearray(json.dumps(fields, ensure_ascii=self.rng.random() < 0.5).encode("utf-8", "surrogatepass"))
        for _ in range(self.rng.choice((1, 2, 4)) if self.rng.random() < 0.05 else 0):
            place = self.rng.randrange(len(line) + 1)
            line[place : place + self.rng.choice((0, 0, 1, 9))] = self.rng.choice(PIECES)
        return bytes(line).replace(b"\n", b" ")


def _fault(line: bytes, answer: bytes) -> str:
    """What is wrong with an answer; '' where nothing is."""
    found = json.loads(answer, parse_constant=lambda word: f"<{word}>")
    if "error" in found:
        return (
            found["error"][:200] if not found["error"] or re.search(r"cannot be evaluated(?! .took more)", found["error"]) else ""
        )
    try:
        given = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        return "an answer to what is not JSON"
    if found.get("id") != given.get("id"):
        return f"the answer of id {found.get('id')}"
    return next(iter(_wrong_numbers(found, "")), "")


def _wrong_numbers(found: object, place: str) -> list[str]:
    """Numbers below 0, absent where one has to be, or out of their own range."""
    if isinstance(found, dict):
        if {"value", "low", "high"} <= found.keys():
            ends = [found["low"], found["value"], found["high"]]
            if None in ends or not ends[0] <= ends[1] * (1 + 1e-9) <= ends[2] * (1 + 1e-8):
                return [f"{place} = {ends}"]
        inner = [(key, one) for key, one in found.items() if key not in {"id", "assumed", "reason", "bottleneck"}]
        return [fault for key, one in inner for fault in _wrong_numbers(one, f"{place}.{key}")]
    wrong = found is None or (isinstance(found, (int, float)) and found < 0)
    return [f"{place} = {found}"] if wrong else []
