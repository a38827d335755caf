"""Speculative decoding: the draft model whose passes are timed."""

from __future__ import annotations

from collections.abc import Sequence

from planner.engine.job.defaults import Defaults
from planner.engine.job.weight_storage import weight_numbers
from planner.engine.records.job import StoredWeights
from planner.errors import Problems
from planner.workload.architecture import Architecture
from planner.workload.tasks import Companion, Workload

USUAL_DRAFT_TOKENS = 4
"""Tokens proposed at once where the workload does not say: Leviathan et al. (arXiv:2211.17192) find 3 to 7 best, vLLM's examples ask for 3 to 5."""


class Draft(StoredWeights[float], frozen=True, kw_only=True):
    """A model that proposes tokens; it computes in the types of the workload."""

    architecture: Architecture
    tokens: float
    """Tokens proposed for each pass of the model."""
    acceptance: float


def draft_of(workload: Workload, companions: Sequence[Architecture], defaults: Defaults, problems: Problems) -> Draft | None:
    """The draft whose acceptance is given; None where there is none. Contradictions are added to `problems`."""
    timed = None
    for number, (companion, model) in enumerate(zip(workload.companions, companions, strict=True)):
        key = f"companions[{number}]"
        if not _checked(companion, key, problems):
            continue
        if timed is not None:
            problems.add(f"{key}.acceptance", "only one draft can be timed.")
            continue
        timed = _draft(companion, model, defaults)
        if workload.disaggregated:
            problems.add(
                f"{key}.acceptance",
                "a draft is not timed for disaggregated replicas; without it its memory alone counts.",
            )
    return timed


def _checked(companion: Companion, key: str, problems: Problems) -> bool:
    """Whether the passes of `companion` are to be timed; contradictions are added to `problems`."""
    given = {name: getattr(companion, name) for name in ("acceptance", "draft_tokens")}
    if companion.role != "draft":
        for name, value in given.items():
            if value is not None:
                problems.add(f"{key}.{name}", f"{value} is of a draft; {companion.role!r} proposes no tokens.")
        return False
    if companion.acceptance is None:
        if companion.draft_tokens is not None:
            problems.add(f"{key}.acceptance", f"missing; {companion.draft_tokens} draft tokens are timed by how many are accepted.")
        return False
    return True


def _draft(companion: Companion, model: Architecture, defaults: Defaults) -> Draft:
    """The draft to be timed; a storage format that does not exist is reported by `companion_numbers`."""
    if companion.draft_tokens is None:
        defaults.assumed["draft_tokens"] = USUAL_DRAFT_TOKENS
    return Draft(
        architecture=model,
        tokens=float(companion.draft_tokens or USUAL_DRAFT_TOKENS),
        acceptance=float(companion.acceptance or 0.0),
        **weight_numbers(companion.weight_dtype, "weight_dtype", model, Problems()),
    )
