"""Every row that is no solution says what rules it out, in figures."""

from __future__ import annotations

import re
from typing import Any

import pytest
from engine_sample import parts, plan, session, workload

from planner.engine.answers.plan import PlanRow
from planner.units import duration_text

PRESETS = session().presets.names()
TIGHT: dict[str, dict[str, Any]] = {
    "as it ships": {},
    "one GPU": {"max_gpus": 1},
    "a dollar": {"targets": {"budget_usd": 1.0}},
    "a minute": {"targets": {"deadline_h": 1 / 60}},
    "at once": {"targets": {"p95_request_s": 0.001, "p95_ttft_s": 0.001, "p95_tpot_s": 1e-6}},
}
SIZE, TIME = r"[\d,.]+ [GM]iB", r"[\d,.]+ (?:µs|ms|s|min|h|d|years)"
FAULTS = (
    rf"takes {TIME}(?: with failures)?, deadline {TIME}",
    r"costs [\d,.]+ \$, budget [\d,.]+ \$",
    r"budget cannot be judged: no offer in the catalogue",
    r"no (?:spot|reserved-\dy) offer",
    r"no offer passes the filters \([\w, -]+\)",
    rf"p95 (?:TTFT |TPOT )?{TIME}, wanted {TIME}",
    r"over \d+ GPUs, where the search ends",
    r"needs [\d,]+ GPUs, there are [\d,]+",
    r"[\d,]+ nodes need a network, \S[^;]* is sold without one",
    r"[\d,]+ of [\d,]+ nodes can be joined by a network \(\S[^;]*\)",
    r"[\d,]+ of [\d,]+ nodes (?:counted on|to be had) at once \(\S[^;]*\)",
)
WHY_NOT = {
    "does-not-fit": rf"does not fit: {SIZE} short \({SIZE} needed, {SIZE} usable; (?:\w| )+ {SIZE}\)",
    "misses-target": rf"misses: (?:{'|'.join(FAULTS)})(?:; (?:{'|'.join(FAULTS)}))*",
    "not-supported": r"compute capability [\d.]+, .* needs? [\d.]+.*|no \w+ rate is known for it \(known: [\w, ]+\)",
}


def losers(preset: str, tight: str) -> list[PlanRow]:
    whole = workload(preset)
    endless = not (whole.train_tokens or whole.requests)
    changes = {} if tight == "a minute" and endless else TIGHT[tight]
    return [row for row in session().plan(workload(preset, **changes), basis="spec", levers=False).rows if row.rank is None]


def test_a_missed_deadline_tells_the_time_with_failures() -> None:
    """The column shows the time of the work alone, 214 d; 222 d with failures miss 120 d."""
    asked = workload("llama-3.1-405b-pretrain", max_gpus=4096, gpus_considered=["H200 SXM"])
    row = next(row for row in session().plan(asked, basis="spec", levers=False).rows if "takes" in row.why)
    assert row.expected_job_h is not None
    assert f"takes {duration_text(row.expected_job_h.value * 3600)} with failures, deadline" in row.why


PAIRS = [
    pytest.param(preset, tight, marks=() if (place - number) % len(TIGHT) == 0 else pytest.mark.thorough)
    for number, preset in enumerate(PRESETS)
    for place, tight in enumerate(TIGHT)
]
"""One of the limits for each preset in every run: each limit meets three presets or more."""


@pytest.mark.sweep
@pytest.mark.parametrize(("preset", "tight"), PAIRS)
def test_every_loser_says_why_in_figures(preset: str, tight: str) -> None:
    for row in losers(preset, tight):
        assert re.fullmatch(WHY_NOT[row.verdict], row.why), f"{row.gpu}: {row.why}"


def test_what_is_named_is_the_largest_part() -> None:
    (row,) = (row for row in plan("llama-3.1-8b-full-finetune", gpus_considered=["RTX 3080 10GB"], max_gpus=1).rows if not row.here)
    assert row.answer.memory_bytes is not None
    found = parts(row.answer.memory_bytes)
    most = max(found, key=found.__getitem__)
    assert f"; {most} " in row.why
    assert row.answer.memory_bytes.total.value > row.answer.memory_bytes.capacity
