"""Finding the record of an engine by its name and release."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec.structs import replace

from planner.engine.job.engine import Engine
from planner.engine.job.engines.catalogue import ENGINES, STAND_INS, as_stand_in
from planner.errors import Problem, UserError, nearest_names

OTHER_NAMES = {
    "trtllm": "tensorrt-llm", "pytorch": "torch", "huggingface": "transformers", "hf": "transformers", "megatronlm": "megatron",
    "megatroncore": "megatron", "mcore": "megatron", "megatronbridge": "megatron-bridge", "swift": "ms-swift", "textgenerationinference": "tgi",
    "pytorchlightning": "lightning", "llamacppserver": "llama.cpp", "exllama": "exllamav3", "exllamav2": "exllamav3", "tabbyapi": "exllamav3", "mlcllm": "mlc",
    "fsdp": "torch", "fsdp2": "torch", "ddp": "torch", "accelerate": "transformers", "llamafile": "llama.cpp",
    "llmfoundry": "composer", "mlxlm": "mlx", "mii": "deepspeed-mii", "tritoninferenceserver": "triton", "gptneox": "gpt-neox", "colossal": "colossalai",
    "aphroditeengine": "aphrodite", "nvidiadynamo": "dynamo", "nemoframework": "nemo", "automodel": "nemo-automodel",
}  # fmt: skip
"""Further names of engines, without case and signs."""
NOT_PLANNED = {
    "ktransformers": "computes experts on the host's processors, which no known engine does; llama.cpp with offload is the closest (offload, engine)",
}
"""Engines that are known and for which another would mislead -> why."""
NEVER = -1.0
"""`Engine.graph_context` of an engine that replays no step."""
_NEWEST = re.compile(r"(nightly|latest|main|master|head|dev|stable|today)\b")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def without_graphs(engine: Engine) -> Engine:
    """`engine` with CUDA graphs turned off: every layer of every pass is launched operator by operator; the engine itself where that time is not known."""
    if not engine.eager_launches:
        return engine
    return replace(engine, launches_per_layer=engine.eager_launches, graph_context=NEVER, doubled_graphs=0.0)


def usual_name(name: str) -> str:
    """The name in this table of an engine that is written another way ('vLLM@0.15', 'TRT-LLM', 'llama_cpp'); an unknown one as it is."""
    plain, at, release = name.partition("@")
    return _BY_LETTERS.get(_letters(plain), plain) + at + release


@lru_cache(maxsize=256)  # thousands of lines of `estimate` name a few engines
def find_engine(name: str, where: str = "") -> Engine:
    """Record of 'name' (today's) or 'name@release' (the newest that is not newer); raises `UserError` with what is accepted.

    A release is a version ("0.15.1rc2"), a build ("b6918"), a month or day ("2025-11", "25.11"), or "nightly" and its like.
    """
    plain, _, release = usual_name(name).partition("@")
    stand_in = STAND_INS.get(plain)
    known = stand_in.engine if stand_in else plain
    if plain.casefold() in NOT_PLANNED:
        raise UserError(Problem(where, "engine", f"{name!r} {NOT_PLANNED[plain.casefold()]}."))
    if known not in ENGINES:
        names = [*ENGINES, *STAND_INS]
        message = f"{name!r} is not accepted; it has to be one of {', '.join(names)}."
        raise UserError(Problem(where, "engine", message, nearest_names(plain, names)))
    found = _of_release(ENGINES[known], release.strip().lower(), versions=stand_in is None)
    if found is None:
        accepted = f"a version, a build, a month or 'nightly', such as {plain}@1.2, @b6918 or @2025-11"
        raise UserError(Problem(where, "engine", f"{release!r} is no release; it has to be {accepted}."))
    return as_stand_in(stand_in, found, _month_of(release.strip().lower())) if stand_in else found


def oldest_in_use(name: str) -> Engine:
    """Record of an engine's release that was today's a year before the newest one came out: who plans a service keeps its engine that current."""
    records = ENGINES[name]
    year, _, month = records[-1].released.partition("-")
    return _of_release(records, f"{int(year) - 1}-{month}", versions=True) or records[0] if month else records[0]


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


_BY_LETTERS = {_letters(name): name for name in (*ENGINES, *STAND_INS)} | OTHER_NAMES


def _of_release(records: Sequence[Engine], release: str, *, versions: bool) -> Engine | None:
    """Newest of `records` that is not newer than `release`; None if it cannot be read. `versions`: they count the engine's own."""
    day = _month_of(release)
    if day:
        return next((record for record in reversed(records) if record.released <= day), records[0])
    if not release or _NEWEST.match(release):
        return records[-1]
    found = re.fullmatch(r"(?:[a-z]+[_/-])?[vrb]?(\d+(?:\.\d+)*)(?:[.+-]?[a-z][\w.+-]*)?", release)
    if not found:
        return None
    numbers = tuple(map(int, found[1].split("."))) if versions else (10**9,)
    return next((record for record in reversed(records) if record.since <= numbers), records[0])


def _month_of(release: str) -> str:
    """Month of a release that names one: 2025-11, 2025-11-07, nightly-20251107, 25.11.01, nov-2025; "" if none is named."""
    if found := re.search(r"(?<!\d)(20[12]\d)[-./]?(0[1-9]|1[0-2])(?![\d]{3})", release):
        return f"{found[1]}-{found[2]}"
    if found := re.match(r"v?([23]\d)\.(0[1-9]|1[0-2])(?!\d)", release):
        return f"20{found[1]}-{found[2]}"
    if (found := re.search(r"([a-z]{3})[a-z]*[-_ ]?(20[12]\d)", release)) and found[1] in _MONTHS:
        return f"{found[2]}-{_MONTHS.index(found[1]) + 1:02}"
    return ""
