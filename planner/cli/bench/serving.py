"""`gpu-planner bench --suite serve`: an OpenAI-compatible server under load, compared with its prediction."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.protocol import utc_now
from planner.cli.exits import ExitCode
from planner.cli.options import FILE, Number, Numbers, options, settings_option
from planner.cli.terminal.streams import say, write_file
from planner.errors import Problem, UserError

if TYPE_CHECKING:
    from planner.observe.results.compared import Compared
    from planner.observe.results.result import Result
    from planner.observe.serving.client import TimedRequest
    from planner.observe.serving.load import Point
    from planner.session import Session

SERVE = "serve"
DEFAULT_AT_ONCE = (1, 8, 32)
LEAST_REQUESTS, ROUNDS = 8, 4
"""Default number of requests: at least the first, and in a closed loop the second for each client."""
RATE_S = 30.0
KEY_VARIABLE = "OPENAI_API_KEY"


serve_options = options(
    click.option("--url", metavar="URL", help="serve: address of the server, up to and including /v1."),
    click.option(
        "--at-once",
        type=Numbers(click.IntRange(1, 10**5)),
        metavar="N,N…",
        help="serve: number of clients; each sends its next request when answered. [default: 1,8,32]",
    ),
    click.option(
        "--rates",
        type=Numbers(Number(0, 1e5, above=True)),
        metavar="R,R…",
        help="serve: random arrivals in requests per second; with or instead of --at-once.",
    ),
    click.option(
        "--input-tokens",
        type=click.IntRange(1, 10**6),
        default=512,
        show_default=True,
        metavar="N",
        help="serve: tokens per prompt.",
    ),
    click.option(
        "--output-tokens",
        type=click.IntRange(2, 10**6),
        default=128,
        show_default=True,
        metavar="N",
        help="serve: tokens per answer.",
    ),
    click.option("--requests", type=click.IntRange(1, 10**6), metavar="N", help="serve: number of requests for each load."),
    settings_option("serve: a setting of the server, such as gpu=H100; repeatable."),
    click.option("--out", type=FILE, metavar="FILE", help="serve: also write the result to FILE."),
)
"""Options of the suite serve."""


def measure_server(session: Session, *, as_json: bool, **given: Any) -> int:
    """Send requests to the server, print each result with its prediction, and store both; list missing settings."""
    import msgspec

    from planner.cli.plan.options import given_settings
    from planner.observe.serving.http_stream import ServerRefusedError

    if not given["url"]:
        raise UserError(
            Problem("--url", "", "is needed by the suite serve: the server's address, such as http://localhost:8000/v1.")
        )
    settings = given_settings(given["settings"])
    points = _points(given["at_once"], given["rates"], given["requests"])
    lengths = given["input_tokens"], given["output_tokens"]
    if given["out"] is not None:
        _check_folder(given["out"])

    def check(model: str) -> None:
        """Raise `UserError` for a model that cannot be predicted, before the measurement, which may take an hour."""
        _compared(session, [_expected(point, model, *lengths) for point in points[:1]], settings, refuse=True)

    try:
        results = asyncio.run(_measured(given["url"], points, *lengths, check))
    except (ServerRefusedError, ValueError) as error:
        raise UserError(Problem("--url", "", f"{given['url']} {error}.")) from None
    _tell(session, results, settings, as_json=as_json)
    if given["out"] is not None:
        write_file(given["out"], msgspec.json.Encoder().encode_lines(results))
    return ExitCode.ANSWERED


def _check_folder(out: Path) -> None:
    if not out.absolute().parent.is_dir():
        raise UserError(Problem("--out", "", f"{out}: there is no folder {out.absolute().parent}."))


def _expected(point: Point, model: str, input_tokens: int, output_tokens: int) -> Result:
    """Result for `point` without measured values."""
    from planner.observe.results.result import Result
    from planner.observe.serving.load import TOOL, settings_of

    return Result(
        tool=TOOL, name=point.name, settings=settings_of(point, model, input_tokens, output_tokens, point.requests), seen={}
    )


def _points(at_once: Sequence[int] | None, rates: Sequence[float] | None, requests: int | None) -> list[Point]:
    from planner.observe.serving.load import Point

    clients = at_once or (() if rates else DEFAULT_AT_ONCE)
    closed = [Point("closed", amount, requests or max(LEAST_REQUESTS, ROUNDS * amount)) for amount in clients]
    opened = [Point("open", rate, requests or max(LEAST_REQUESTS, round(RATE_S * rate))) for rate in rates or ()]
    return [*closed, *opened]


async def _measured(
    url: str, points: Sequence[Point], input_tokens: int, output_tokens: int, check: Callable[[str], None]
) -> list[Result]:
    import secrets

    from planner.observe.serving.client import Client, served_model
    from planner.observe.serving.http_stream import address_of
    from planner.observe.serving.load import result_of, run_point, warmed

    address, key = address_of(url), os.environ.get(KEY_VARIABLE, "")
    model = await served_model(address, key)
    check(model)
    client = await warmed(Client(address, model, input_tokens, output_tokens, key, run=secrets.token_hex(4)), input_tokens)
    results = []
    for place, point in enumerate(points):
        client.seed = place
        say(f"{point.name}: {point.requests} requests …")
        found: list[TimedRequest] = await run_point(client, point)
        results.append(result_of(point, found, model, utc_now()))
    return results


def _tell(session: Session, results: Sequence[Result], settings: dict[str, Any], *, as_json: bool) -> None:
    from planner.cli.measurements.importing import keep_results
    from planner.cli.terminal.sections import console, print_json, print_sections
    from planner.present.benchmark.results import result_section, seen_section

    compared = _compared(session, results, settings)
    keep_results(session, compared)
    if as_json:
        print_json(compared or results)
        return
    sections = [result_section(one.title, one.verdicts, one.why, refused=one.refused, notes=one.notes) for one in compared]
    print_sections(sections or [seen_section(one.name, dict(one.seen), one.notes) for one in results], console())


def _compared(session: Session, results: Sequence[Result], settings: dict[str, Any], *, refuse: bool = False) -> list[Compared]:
    """Each result with its prediction; none, with a note on stderr, if settings are missing. `refuse`: raise other errors."""
    from planner.observe.machine import match_gpu
    from planner.observe.results.compared import ResultFile, compare

    given = ResultFile("--set", "bench serve", results, settings)
    try:
        found = compare(session, given, lambda name: match_gpu(name, None, session.gpus), session.models.names())
    except UserError as wrong:
        if not all("is not in the file" in problem.message for problem in wrong.problems):
            raise
        if refuse:
            return []
        needed = ", ".join(f"{name}=…" for name in dict.fromkeys(problem.key for problem in wrong.problems))
        say(f"no prediction: describe the server with --set {needed}")
        return []
    if refuse and (refused := dict.fromkeys(one.refused for one in found if one.refused)):
        raise UserError([Problem("--set", "", text) for text in refused])
    return found
