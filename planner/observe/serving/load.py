"""Load on a server: closed loops of clients that send again after each answer, and open loops at a fixed rate."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Literal

from planner.observe.results.result import Result, known, stated
from planner.observe.serving.client import Client, TimedRequest
from planner.observe.serving.http_stream import ServerRefusedError

Loop = Literal["closed", "open"]
Send = Callable[[int, float], Coroutine[Any, Any, TimedRequest]]
TOOL = "gpu-planner bench serve"
WARM = 3
"""Requests before anything is timed: they trigger compilation, and show how many tokens a word has."""
CACHED_SHARE = 0.1
"""Share of the prompts' tokens found in a cache above which a note warns: the time to the first token is then too short."""
LATE_SHARE = 0.05
"""Mean lateness of a client, relative to the time between its requests or a tenth of a second, above which a note warns."""


@dataclass(frozen=True, slots=True)
class Point:
    """One load: a number of concurrent clients, or of requests per second."""

    loop: Loop
    amount: float
    requests: int

    @property
    def name(self) -> str:
        """'8 at once', 'rate 2.5/s'."""
        return f"{self.amount:.0f} at once" if self.loop == "closed" else f"rate {self.amount:g}/s"


async def warmed(client: Client, input_tokens: int) -> Client:
    """`client` with prompts of about `input_tokens` by the server's count; raises `ServerRefusedError` without an answer."""
    found = [await client.timed(-number, 0.0) for number in range(1, WARM)]
    if all(one.failure for one in found) and client.options:
        client = replace(client, options={})  # a server may refuse fields that are not OpenAI's
        found = [await client.timed(-number, 0.0) for number in range(1, WARM)]
    good = [one for one in found if not one.failure]
    if not good:
        raise ServerRefusedError(found[0].failure)
    if counted := good[-1].input_tokens:
        client = replace(client, input_words=max(1, round(client.input_words * input_tokens / counted)))
    await client.timed(-WARM, 0.0)
    return client


async def run_point(client: Client, point: Point) -> list[TimedRequest]:
    """All requests of one load, in the order in which they were sent."""
    if point.loop == "closed":
        return await _closed(client.timed, point)
    return await _open(client.timed, point, client.seed)


async def _closed(one: Send, point: Point) -> list[TimedRequest]:
    clock, left, found = asyncio.get_running_loop().time, iter(range(point.requests)), dict[int, TimedRequest]()

    async def again() -> None:
        for number in left:
            found[number] = await one(number, clock())

    await asyncio.gather(*(again() for _ in range(int(point.amount))))
    return [found[number] for number in sorted(found)]


async def _open(one: Send, point: Point, seed: int) -> list[TimedRequest]:
    """Requests with Poisson arrivals: exponential gaps, from a fixed seed."""
    chance, clock, tasks = random.Random(seed), asyncio.get_running_loop().time, []  # noqa: S311  # arrivals, no secrets
    due_s = clock()
    for number in range(point.requests):
        due_s += chance.expovariate(point.amount)
        await asyncio.sleep(max(0.0, due_s - clock()))
        tasks.append(asyncio.ensure_future(one(number, due_s)))
    return list(await asyncio.gather(*tasks))


def result_of(point: Point, found: list[TimedRequest], model: str, taken_at: str) -> Result:
    """Result of one load: means over the requests that were answered. Raises `ValueError` where none was."""
    good = [one for one in found if not one.failure and one.last_s is not None]
    if not good:
        raise ValueError(found[0].failure if found else "no request was sent")
    begun_s, ended_s = min(one.sent_s for one in good), max(one.last_s or 0.0 for one in good)
    seconds = ended_s - begun_s
    inputs = [one.input_tokens for one in good if one.input_tokens is not None]
    input_tokens = round(statistics.fmean(inputs)) if inputs else None
    output_tokens = round(statistics.fmean(one.output_tokens for one in good))
    return Result(
        tool=TOOL,
        name=point.name,
        settings=settings_of(point, model, input_tokens, output_tokens, len(good)),
        seen=known(
            ttft_s=_mean([one.ttft_s for one in good]),
            tpot_s=_mean([one.tpot_s for one in good]),
            request_s=_mean([one.request_s for one in good]),
            output_tokens_per_s=sum(one.output_tokens for one in good) / seconds if seconds > 0 else None,
            requests_per_s=len(good) / seconds if seconds > 0 else None,
        ),
        taken_at=taken_at,
        notes=tuple(_notes(point, found, good)),
    )


def settings_of(point: Point, model: str, input_tokens: int | None, output_tokens: int, requests: int) -> dict[str, Any]:
    """Settings of a result of `point`, in the names of a request."""
    loaded = (
        {"concurrency": int(point.amount), "requests": requests} if point.loop == "closed" else {"request_rate_per_s": point.amount}
    )
    return {"task": "serve"} | stated(model=model, input_tokens=input_tokens, output_tokens=output_tokens) | loaded


def _notes(point: Point, found: list[TimedRequest], good: list[TimedRequest]) -> list[str]:
    failed = [one for one in found if one.failure]
    notes = (
        [f"{len(failed)} of {len(found)} requests failed and are not counted in any figure: {failed[0].failure}"] if failed else []
    )
    late_s = statistics.fmean(one.sent_s - one.due_s for one in good)
    if point.loop == "open" and late_s > LATE_SHARE * max(0.1, 1 / point.amount):
        notes.append(f"this client sent {late_s * 1e3:.0f} ms late on average: it, or its machine, is too slow for the rate")
    if all(one.input_tokens is None for one in good):
        notes.append("the server does not count tokens: give the number per prompt with --set input_tokens=…")
    cached = sum(one.cached_tokens for one in good) / max(1, sum(one.input_tokens or 0 for one in good))
    if cached > CACHED_SHARE:
        notes.append(f"the server had {cached:.0%} of the prompts' tokens in its cache: the time to the first token is too short")
    if any(one.parts < one.output_tokens for one in good):
        notes.append("the server sends several tokens in one part; times between tokens are means")
    return notes


def _mean(values: list[float | None]) -> float | None:
    given = [value for value in values if value is not None]
    return statistics.fmean(given) if given else None
