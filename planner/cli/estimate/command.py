"""`gpu-planner estimate`: JSON lines in, JSON lines out, in order; what has arrived is answered at once."""

from __future__ import annotations

import codecs
import gc
import math
import os
import select
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from planner.cli.estimate.forks import Shared, spare_processors
from planner.cli.estimate.time_limit import TimeUpError, time_limit
from planner.cli.exits import ExitCode
from planner.cli.invocation import Invocation, exact_option, pass_invocation
from planner.errors import Problem, UserError
from planner.reading import check_depth, open_file, parse_json
from planner.schema import faults
from planner.text import escaped_json
from planner.workload.tasks import Request

if TYPE_CHECKING:
    from planner.engine.answers.answer import Answer
    from planner.session import Session

CHUNK_LINES = 2048
"""Lines evaluated together in one process: enough to spread the cost of a call, few enough to keep answers coming."""
READ_BYTES, BULK_BYTES, MOST_BULK_BYTES = 1 << 18, 1 << 15, 1 << 25
"""Read at once; what comes in faster than anyone writes line by line; and the most that is gathered of it."""
LONGEST_LINE = 1 << 20
"""Bytes of a line, a hundred times those of one with a whole config."""
LONGEST_S, USUAL_S = 5.0, 0.005
"""Processor time that one line may take, and that each of many together may take besides."""
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
        with open_file(file) as source:
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
    begun, mark = b"", codecs.BOM_UTF8
    while block := _arrived(descriptor, most):
        *lines, begun = (begun + block.removeprefix(mark)).split(b"\n")
        begun, mark = begun[: LONGEST_LINE + 1], b""  # of a line that is too long no more is kept
        if lines:
            yield lines
    if begun:
        yield [begun]


def _arrived(descriptor: int, most: int) -> bytes:
    """What one read returns; where that is a bulk, what is written without a pause, up to about `most` lines."""
    blocks = [os.read(descriptor, READ_BYTES)]
    size, lines = len(blocks[0]), blocks[0].count(b"\n")
    while BULK_BYTES <= size < MOST_BULK_BYTES and lines < most and select.select([descriptor], [], [], PAUSE_S)[0]:
        block = os.read(descriptor, READ_BYTES)
        if not block:
            break
        blocks.append(block)
        size, lines = size + len(block), lines + block.count(b"\n")
    return b"".join(blocks)


def answer_lines(session: Session, lines: list[bytes]) -> list[Any]:
    """One answer or `Refusal` per line that is not blank, in order, whatever the lines hold."""
    read = [_request(line) for line in lines if line.strip()]
    evaluated = iter(_evaluated(session, [item for item in read if isinstance(item, Request)]))
    return [_presentable(item, next(evaluated)) if isinstance(item, Request) else item for item in read]


def _evaluated(session: Session, requests: list[Request]) -> list[Answer | UserError]:
    """One answer a request; where that fails, of each half, and where it takes too long of each alone: only those at fault are refused."""
    try:
        with time_limit(LONGEST_S + USUAL_S * len(requests)):
            return session.estimate(requests)
    except Exception as error:  # noqa: BLE001  # whatever is wrong with one line, the others are answered
        if len(requests) == 1:
            reason = (
                f"took more than {LONGEST_S:g} s of the processor"
                if isinstance(error, TimeUpError)
                else f"{type(error).__name__}: {error}"
            )
            return [UserError(Problem("", "", f"cannot be evaluated ({reason})."))]
        each = 1 if isinstance(error, TimeUpError) else len(requests) // 2
    parts = (requests[begin : begin + each] for begin in range(0, len(requests), each))
    return [answer for part in parts for answer in _evaluated(session, part)]


def _presentable(request: Request, answer: Answer | UserError) -> Answer | Refusal:
    """`answer` as it is written: a number that JSON has no word for would read as unknown, and is refused."""
    if isinstance(answer, UserError):
        return Refusal(request.id, _words(answer.problems))
    absent = (answer.reason, answer.bottleneck).count(None)
    if _encoder.encode(answer).count(b":null") > absent and (place := _not_finite(msgspec.to_builtins(answer))):
        return Refusal(request.id, f"cannot be evaluated ({place} is beyond all numbers).")
    return answer


def _not_finite(found: object) -> str:
    """The key of a number in `found` that is infinite or none; '' without one."""
    if isinstance(found, float):
        return "" if math.isfinite(found) else "it"
    inner = found.items() if isinstance(found, dict) else ()
    return next((name if place == "it" else f"{name}.{place}" for name, value in inner if (place := _not_finite(value))), "")


def _request(line: bytes) -> Request | Refusal:
    try:
        if len(line) > LONGEST_LINE:
            return Refusal(None, f"is longer than {LONGEST_LINE >> 10} KiB, the most that is read of a line.")
        request = _decoder.decode(line)
        for nested in (request.id, request.model):
            check_depth(nested, "")
    except UserError as error:
        return Refusal(None, _words(error.problems))
    except (msgspec.DecodeError, ValueError, RecursionError) as unusable:
        try:
            given = parse_json(line, "")
        except UserError as error:
            return Refusal(None, _words(error.problems))
        found = faults(Request, given, "") or [Problem("", "", str(unusable))]
        return Refusal(given.get("id") if isinstance(given, dict) else None, _words(found))
    return request


def _words(problems: Iterable[Problem]) -> str:
    return " ".join(str(problem) for problem in problems)
