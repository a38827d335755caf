"""`bench --suite serve` against llama.cpp's own server: as it streamed once, and, where it is installed, as it runs here."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import urllib.request
from pathlib import Path

import pytest
from repository import ROOT, RunPlanner
from started_server import started

from planner.observe.results.read import read_results
from planner.observe.results.result import Result
from planner.observe.serving.client import Client, TimedRequest
from planner.observe.serving.http_stream import Address, address_of
from planner.observe.serving.load import Point, result_of, run_point

STREAM = (ROOT / "tests" / "data" / "streams" / "llama_cpp.http").read_bytes()
INPUT, OUTPUT = 64, 32
MISSING = [name for name in ("xllamacpp", "gguf") if importlib.util.find_spec(name) is None]
WITHIN = 0.15
"""The server's clock begins after it has read the prompt's words, and ends before it has sent the last one."""


async def replayed(pieces: int) -> TimedRequest:
    """The recorded answer through the client, sent in `pieces` parts of equal size."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        size = len(STREAM) // pieces + 1
        for begin in range(0, len(STREAM), size):
            writer.write(STREAM[begin : begin + size])
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return await Client(Address("127.0.0.1", port, "/v1", tls=False), "tiny-llama", 4, 6).timed(0, 0.0)


@pytest.mark.parametrize("pieces", [1, 7, 97])
async def test_a_real_answer_is_counted_token_by_token(pieces: int) -> None:
    found = await replayed(pieces)
    assert found.failure == ""
    assert (found.input_tokens, found.output_tokens, found.parts, found.cached_tokens) == (5, 6, 6, 0)


def test_no_two_runs_send_the_same_words() -> None:
    """A server that still has the prompts of the run before answers them fifty times faster."""
    one, other = (Client(Address("h", 1, "", tls=False), "m", 16, 4, run=run) for run in ("a", "b"))
    assert one.prompt(0) != other.prompt(0)
    assert one.prompt(0) == one.prompt(0)


@pytest.mark.parametrize(("cached", "told"), [(4, False), (60, True)])
def test_prompts_that_the_server_had_in_its_cache_are_told(cached: int, told: bool) -> None:
    timed = TimedRequest(0.0, 0.0, first_s=0.1, last_s=0.5, output_tokens=5, parts=5, input_tokens=100, cached_tokens=cached)
    notes = result_of(Point("closed", 1, 1), [timed], "m", "").notes
    assert any("60% of the prompts' tokens in its cache" in note for note in notes) is told


def totals(address: str) -> dict[str, float]:
    """What the server counted itself."""
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:  # noqa: S310  # our own address
        return {name: float(value) for name, value in re.findall(r"^llamacpp:(\w+) (\S+)$", answer.read().decode(), re.MULTILINE)}


@pytest.mark.process
@pytest.mark.measuring
@pytest.mark.alone
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_a_real_server_is_measured_as_it_measures_itself_and_stands_beside_its_prediction(
    run_planner: RunPlanner, tmp_path: Path
) -> None:
    model, out = tmp_path / "tiny-llama.gguf", tmp_path / "seen.jsonl"
    runs = ("gpu=cpu", "gpus=1", "engine=llama.cpp", "dtype=fp32", "weight_dtype=fp16", f"model={model}")
    given = ("--input-tokens", str(INPUT), "--output-tokens", str(OUTPUT), "--at-once", "1", "--requests", "16")
    with started("llama_cpp_server.py", str(model)) as address:
        loads = ("--url", f"{address}/v1", *given, *(word for one in runs for word in ("--set", one)))
        done = run_planner("--state", str(tmp_path), "bench", "--suite", "serve", *loads, "--out", str(out))
        before = totals(address)
        again = asyncio.run(run_point(Client(address_of(f"{address}/v1"), "", INPUT, OUTPUT, run="again"), Point("closed", 1, 16)))
        own = {name: value - before[name] for name, value in totals(address).items()}
    assert done.returncode == 0, done.stderr
    print(done.stdout)  # noqa: T201  # seen with -s
    assert "Predicted " in done.stdout
    (seen,) = (one for one in read_results(out.read_bytes(), str(out)) if isinstance(one, Result))
    assert (seen.settings["input_tokens"], seen.settings["output_tokens"]) == (INPUT, OUTPUT)
    assert own["prompt_tokens_cached_total"] < 0.1 * own["prompt_tokens_total"]
    per_token_s = own["tokens_predicted_seconds_total"] / own["tokens_predicted_total"]
    found = result_of(Point("closed", 1, 16), again, "", "").seen
    assert found["tpot_s"] * (OUTPUT - 1) / OUTPUT == pytest.approx(per_token_s, rel=WITHIN)
    assert found["ttft_s"] >= own["prompt_seconds_total"] / 16
    assert seen.notes == ()
