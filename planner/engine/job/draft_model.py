"""Speculative decoding: the draft model whose passes are timed, and what it is asked."""

from __future__ import annotations

from dataclasses import dataclass

from planner.engine.job.defaults import Chooser
from planner.engine.job.weight_storage import UNPACK_HOST_S, stored_bytes
from planner.engine.records.job import StoredWeights
from planner.errors import Problems
from planner.workload.architecture import Architecture
from planner.workload.tasks import Companion, Workload

USUAL_DRAFT_TOKENS = 4
"""Tokens proposed at once where nothing is said: Leviathan et al. (arXiv:2211.17192) find 3 to 7 best, vLLM's examples ask for 3 to 5."""
MOST_DRAFT_TOKENS = 32


@dataclass(frozen=True, kw_only=True)
class Draft(StoredWeights[float]):
    """A model that proposes tokens; the rest of what is computed with it is as the workload says."""

    architecture: Architecture
    tokens: float
    """Proposed for each pass of the model."""
    acceptance: float


def draft_of(workload: Workload, architecture: Architecture, choose: Chooser, problems: Problems) -> Draft | None:
    """The draft whose acceptance is given; None where there is none. What cannot be is added to `problems`."""
    timed = None
    for number, (companion, model) in enumerate(zip(workload.companions, architecture.companions, strict=True)):
        key = f"companions[{number}]"
        if not _checked(companion, key, problems):
            continue
        if timed is not None:
            problems.add(f"{key}.acceptance", "only one draft can be timed.")
            continue
        timed = _draft(companion, model, choose)
        if workload.disaggregated:
            problems.add(
                f"{key}.acceptance",
                "a draft is not timed for disaggregated replicas; without it its memory alone counts.",
            )
    return timed


def _checked(companion: Companion, key: str, problems: Problems) -> bool:
    """Whether its passes are to be timed; problems with what it says of them."""
    asked = {name: getattr(companion, name) for name in ("acceptance", "draft_tokens")}
    if companion.role != "draft":
        for name, value in asked.items():
            if value is not None:
                problems.add(f"{key}.{name}", f"{value} is of a draft; {companion.role!r} proposes no tokens.")
        return False
    if companion.acceptance is None:
        if companion.draft_tokens is not None:
            problems.add(f"{key}.acceptance", f"missing; {companion.draft_tokens} draft tokens are timed by how many are accepted.")
        return False
    if not 0 <= companion.acceptance <= 1:
        problems.add(f"{key}.acceptance", f"{companion.acceptance} is not accepted; it has to be from 0 to 1.")
    if companion.draft_tokens is not None and not 1 <= companion.draft_tokens <= MOST_DRAFT_TOKENS:
        problems.add(
            f"{key}.draft_tokens", f"{companion.draft_tokens} is not accepted; it has to be from 1 to {MOST_DRAFT_TOKENS}."
        )
    return True


def _draft(companion: Companion, model: Architecture, choose: Chooser) -> Draft:
    """A storage format that is none is told by `companions.held`."""
    if companion.draft_tokens is None:
        choose.assumed["draft_tokens"] = USUAL_DRAFT_TOKENS
    linear, other, packed = stored_bytes(companion.weight_dtype, "weight_dtype", model, Problems())
    return Draft(
        architecture=model,
        tokens=float(companion.draft_tokens or USUAL_DRAFT_TOKENS),
        acceptance=float(companion.acceptance or 0.0),
        linear_bytes=linear,
        other_bytes=other,
        weight_bits_packed=packed,
        unpack_host_s=UNPACK_HOST_S.get(companion.weight_dtype, 0.0),
        gptq=float(companion.weight_dtype.startswith("gptq")),
    )
