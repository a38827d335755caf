"""A client of an OpenAI-compatible server: the model it serves, and one completion timed token by token."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass, field
from typing import Any

from planner.observe.serving.http_stream import Address, ServerRefusedError, lines

TIMEOUT_S = 600.0
TEXT = (
    "the of and to in is it you that he was for on are with as his they be at one have this from or had by hot but some "
    "what there we can out other were all your when up use word how said an each she which do their time if will way about "
    "many then them would write like so these her long make thing see"
)
MODELS_S = 10.0
"""Time limit of the list of models, in seconds."""
WORDS = TEXT.split()
"""Frequent English words: nearly every tokenizer has each as one token."""


@dataclass(slots=True)
class TimedRequest:
    """One request: times on one clock, in seconds, and tokens."""

    due_s: float
    """Time at which the request was due."""
    sent_s: float
    first_s: float | None = None
    last_s: float | None = None
    input_tokens: int | None = None
    """Number counted by the server; None: not reported."""
    cached_tokens: int = 0
    """Tokens of the prompt that the server reports as cached."""
    output_tokens: int = 0
    """Number counted by the server, else parts of the answer."""
    parts: int = 0
    failure: str = ""

    @property
    def ttft_s(self) -> float | None:
        """Time from sending to the first token."""
        return None if self.first_s is None else self.first_s - self.sent_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time between tokens after the first."""
        if self.first_s is None or self.last_s is None or self.output_tokens < 2:
            return None
        return (self.last_s - self.first_s) / (self.output_tokens - 1)

    @property
    def request_s(self) -> float | None:
        """Time from sending to the last token."""
        return None if self.last_s is None else self.last_s - self.sent_s


@dataclass(slots=True)
class Client:
    """Requests of one length to one server."""

    address: Address
    model: str
    input_words: int
    output_tokens: int
    key: str = ""
    """API key; empty: none is sent."""
    seed: int = 0
    run: str = ""
    """Part of the random seed, so that a server's cache holds no prompt of an earlier run."""
    options: dict[str, Any] = field(default_factory=lambda: {"ignore_eos": True})
    """Fields that vLLM, SGLang and llama.cpp accept in addition to OpenAI's own, so that answers have the requested length."""

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def prompt(self, number: int) -> str:
        """Random words, different for every request, so that no prefix is found in a cache."""
        chance = random.Random(f"{self.run}/{self.seed}/{number}")  # noqa: S311  # words, no secrets
        return " ".join(chance.choice(WORDS) for _ in range(self.input_words))

    async def timed(self, number: int, due_s: float) -> TimedRequest:
        """Send request `number` and read its answer; the result names a failure."""
        clock = asyncio.get_running_loop().time
        body = {
            "model": self.model,
            "prompt": self.prompt(number),
            "max_tokens": self.output_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.options,
        }
        found = TimedRequest(due_s, clock())
        try:
            async for at_s, line in lines(self.address, "/completions", body, self.headers, TIMEOUT_S):
                if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
                    _note(found, at_s, json.loads(line[5:]))
        except ServerRefusedError as error:
            found.failure = str(error)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            found.failure = f"does not stream as OpenAI's server does: {error!r}"
        if not found.failure and found.first_s is None:
            found.failure = "answered without a token"
        found.output_tokens = found.output_tokens or found.parts
        return found


def _note(found: TimedRequest, at_s: float, event: dict[str, Any]) -> None:
    """Record the time of a stream's event with a token, and its counts of tokens.

    A token may have no text yet (the first bytes of a character); an event that only ends the answer has no token.
    """
    if "error" in event:
        raise ServerRefusedError(str(event["error"])[:200])
    choices = event.get("choices") or []
    if choices and (choices[0].get("text") or choices[0].get("finish_reason") is None):
        found.first_s = at_s if found.first_s is None else found.first_s
        found.last_s = at_s
        found.parts += 1
    usage = event.get("usage")
    if usage:
        found.input_tokens = usage.get("prompt_tokens", found.input_tokens)
        found.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        found.output_tokens = usage.get("completion_tokens") or found.output_tokens


async def served_model(address: Address, key: str = "") -> str:
    """First model that the server lists; raises `ServerRefusedError`."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    text = b"".join([line async for _, line in lines(address, "/models", None, headers, MODELS_S)])
    try:
        return str(json.loads(text)["data"][0]["id"])
    except (ValueError, KeyError, TypeError, IndexError):
        raise ServerRefusedError("lists no model at /models") from None
