"""`gpu-planner estimate`: JSON lines in, JSON lines out, in order; what has arrived is answered at once."""

from __future__ import annotations

import gc
import os
import select
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from planner.cli.estimate.forks import Shared, spare_processors
from planner.cli.exits import ExitCode
from planner.cli.invocation import Invocation, exact_option, pass_invocation
from planner.errors import Problem, UserError
from planner.schema import faults
from planner.text import escaped_json
from planner.workload.tasks import Request

if TYPE_CHECKING:
    from planner.session import Session

CHUNK_LINES = 2048
"""Lines evaluated together in one process: enough to spread the cost of a call, few enough to keep answers coming."""
READ_BYTES, BULK_BYTES = 1 << 18, 1 << 15
"""Read at once; and what comes in faster than anyone writes line by line."""
YOUNG_OBJECTS = 200_000
"""Made before it is looked for cycles among them: of answers, which have none, with Python's own 700 that takes a twentieth of the time."""
PAUSE_S = 0.005
"""Nothing more for so long after a bulk of lines: those are all there are for now."""


class Refusal(msgspec.Struct, frozen=True):
    """The answer to a line that cannot be evaluated."""

    id: Any
    error: str


_decoder = msgspec.json.Decoder(Request)
_encoder = msgspec.json.Encoder()


@click.command()
@click.argument("file", default="-", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@exact_option
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
    gc.set_threshold(YOUNG_OBJECTS)
    forks = spare_processors()
    most = CHUNK_LINES * (1 + forks)
    shared = Shared(lambda lines: escaped_json(_encoder.encode_lines(answer_lines(session, lines))), forks)
    try:
        for lines in arriving_lines(source.fileno(), most):
            each = -(-len(lines) // -(-len(lines) // (2 * most)))
            for start in range(0, len(lines), each):
                for answers in shared(lines[start : start + each]):
                    out.write(answers)
                    out.flush()
    finally:
        shared.end()


def arriving_lines(descriptor: int, most: int) -> Iterator[list[bytes]]:
    """Lists of the whole lines that have arrived: one line from a slow writer, about `most` from a file."""
    begun = b""
    while block := _arrived(descriptor, most):
        *lines, begun = (begun + block).split(b"\n")
        if lines:
            yield lines
    if begun:
        yield [begun]


def _arrived(descriptor: int, most: int) -> bytes:
    """What one read returns; where that is a bulk, what is written without a pause, up to about `most` lines."""
    blocks = [os.read(descriptor, READ_BYTES)]
    size, lines = len(blocks[0]), blocks[0].count(b"\n")
    while size >= BULK_BYTES and lines < most and select.select([descriptor], [], [], PAUSE_S)[0]:
        block = os.read(descriptor, READ_BYTES)
        if not block:
            break
        blocks.append(block)
        size, lines = size + len(block), lines + block.count(b"\n")
    return b"".join(blocks)


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
