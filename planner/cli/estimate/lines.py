"""One answer for every line of `estimate`, valid or not, within a limit of processor time."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from planner.errors import Problem, UserError
from planner.reading import check_depth, parse_json
from planner.schema import faults
from planner.workload.tasks import Request

if TYPE_CHECKING:
    from planner.engine.answers.answer import Answer
    from planner.session import Session


class TimeUpError(Exception):
    """The time limit has passed."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeUpError` after `seconds` of processor time in the block; only in the main thread, and not on Windows."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: object) -> None:
        raise TimeUpError

    handler = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, handler)


LONGEST_LINE = 1 << 20
"""Maximum bytes of a line, a hundred times the length of one with a complete config."""
LONGEST_S, USUAL_S = 5.0, 0.005
"""Maximum processor seconds for one line, and for each further line that is answered together with it."""


class Refusal(msgspec.Struct, frozen=True):
    """Answer to a line that cannot be evaluated."""

    id: Any
    error: str


_decoder = msgspec.json.Decoder(Request)
encoder = msgspec.json.Encoder()


def answer_lines(session: Session, lines: list[bytes]) -> list[Any]:
    """One answer or `Refusal` for each line that is not blank, in order."""
    read = [_request(line) for line in lines if line.strip()]
    evaluated = iter(_evaluated(session, [item for item in read if isinstance(item, Request)]))
    return [_presentable(item, next(evaluated)) if isinstance(item, Request) else item for item in read]


def _evaluated(session: Session, requests: list[Request]) -> list[Answer | UserError]:
    """One answer for each request. After a failure each half is tried again, after a timeout each request, so that only faulty ones are refused."""
    try:
        with time_limit(LONGEST_S + USUAL_S * len(requests)):
            return session.estimate(requests)
    except Exception as error:  # noqa: BLE001  # a failure on one line must not affect the others
        if len(requests) == 1:
            reason = (
                f"took more than {LONGEST_S:g} s of processor time"
                if isinstance(error, TimeUpError)
                else f"{type(error).__name__}: {error}"
            )
            return [UserError(Problem("", "", f"cannot be evaluated ({reason})."))]
        each = 1 if isinstance(error, TimeUpError) else len(requests) // 2
    parts = (requests[begin : begin + each] for begin in range(0, len(requests), each))
    return [answer for part in parts for answer in _evaluated(session, part)]


def _presentable(request: Request, answer: Answer | UserError) -> Answer | Refusal:
    """`answer`, or a refusal if it contains an infinite number or NaN, which JSON would show as unknown."""
    if isinstance(answer, UserError):
        return Refusal(request.id, _words(answer.problems))
    absent = (answer.reason, answer.bottleneck).count(None)
    if encoder.encode(answer).count(b":null") > absent and (place := _not_finite(msgspec.to_builtins(answer))):
        return Refusal(request.id, f"cannot be evaluated ({place} is out of range).")
    return answer


def _not_finite(found: object) -> str:
    """Key of an infinite number or NaN in `found`; '' without one."""
    if isinstance(found, float):
        return "" if math.isfinite(found) else "it"
    inner = found.items() if isinstance(found, dict) else ()
    return next((name if place == "it" else f"{name}.{place}" for name, value in inner if (place := _not_finite(value))), "")


def _request(line: bytes) -> Request | Refusal:
    try:
        if len(line) > LONGEST_LINE:
            return Refusal(None, f"is longer than {LONGEST_LINE >> 10} KiB, the limit for a line.")
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
