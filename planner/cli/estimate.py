"""`gpu-planner estimate`: JSON lines in, JSON lines out, in order; what has arrived is answered at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from planner.cli.exits import ExitCode
from planner.cli.invocation import Invocation, pass_invocation
from planner.errors import Problem, UserError
from planner.schema import faults
from planner.workload.tasks import Request

if TYPE_CHECKING:
    from planner.session import Session

CHUNK_LINES = 2048
"""Lines evaluated together: enough to spread the cost of a call, few enough to keep answers coming."""
READ_BYTES = 1 << 18


class Refusal(msgspec.Struct, frozen=True):
    """The answer to a line that cannot be evaluated."""

    id: Any
    error: str


_decoder = msgspec.json.Decoder(Request)
_encoder = msgspec.json.Encoder()


@click.command()
@click.argument("file", default="-", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@pass_invocation
def estimate(invocation: Invocation, file: Path) -> int:
    """Evaluate candidates as given, one JSON object a line of FILE (or stdin), without a search.

    Only model, gpu and task are required; every default used comes back in "assumed". A line that cannot be used
    answers {"id", "error"} and the rest go on. `gpu-planner schema request` describes a line.
    """
    session = invocation.session()
    out = sys.stdout.buffer
    if str(file) == "-":
        _answer_all(session, sys.stdin.buffer, out)
    else:
        try:
            source = file.open("rb")
        except OSError as error:
            raise UserError(Problem(str(file), "", f"{error.strerror or error}.")) from error
        with source:
            _answer_all(session, source, out)
    return ExitCode.ANSWERED


def _answer_all(session: Session, source: BinaryIO, out: BinaryIO) -> None:
    for lines in arriving_lines(source.fileno()):
        for start in range(0, len(lines), CHUNK_LINES):
            answers = answer_lines(session, lines[start : start + CHUNK_LINES])
            out.write(_encoder.encode_lines(answers))
            out.flush()


def arriving_lines(descriptor: int) -> Iterator[list[bytes]]:
    """Lists of the whole lines each read returned: one line from a slow writer, thousands from a file."""
    begun = b""
    while block := os.read(descriptor, READ_BYTES):
        *lines, begun = (begun + block).split(b"\n")
        if lines:
            yield lines
    if begun:
        yield [begun]


def answer_lines(session: Session, lines: list[bytes]) -> list[Any]:
    """One answer or `Refusal` per line that is not blank, in order."""
    read = [_request(line) for line in lines if line.strip()]
    requests = [item for item in read if isinstance(item, Request)]
    evaluated = iter(session.estimate(requests))
    answers: list[Any] = []
    for item in read:
        if isinstance(item, Request):
            answer = next(evaluated)
            answers.append(Refusal(item.id, _words(answer.problems)) if isinstance(answer, UserError) else answer)
        else:
            answers.append(item)
    return answers


def _request(line: bytes) -> Request | Refusal:
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as unusable:
        try:
            given = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return Refusal(None, f"not JSON: {error}")
        found = faults(Request, given, "") or [Problem("", "", str(unusable))]
        return Refusal(given.get("id") if isinstance(given, dict) else None, _words(found))


def _words(problems: Iterable[Problem]) -> str:
    return " ".join(str(problem) for problem in problems)
