"""Speculative decoding: rounds by hand, the published speed-up, and what has to hold at any acceptance."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from engine_sample import architecture, ask, ask_all, candidate, chip, session
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.engine.answers.answer import Answer
from planner.engine.job.engines import ENGINES
from planner.engine.performance.operators.forward_pass import Pass, forward
from planner.engine.performance.prefill_decode.speculative_decoding import tokens_per_round
from planner.errors import UserError
from planner.workload.tasks import Companion

H100 = {"gpu": "H100-SXM-80GB"}
CHAT: dict[str, Any] = {**H100, "model": "llama-3.1-8b", "task": "generate", "input_tokens": 1000, "output_tokens": 201}


def drafted(
    acceptance: float | None = 0.8, draft_tokens: int | None = 4, model: str = "llama-3.2-1b", **more: Any
) -> dict[str, Any]:
    draft = {"role": "draft", "model": model, "acceptance": acceptance, "draft_tokens": draft_tokens} | more
    return {"companions": [Companion(**draft)]}


def tpot_s(**fields: Any) -> float:
    found = ask(**fields).tpot_s
    assert found is not None
    return found.mean.value


@pytest.mark.parametrize(
    ("acceptance", "proposed", "tokens"), [(0.8, 5, 3.69), (0.6, 2, 1.96), (0.9, 10, 6.86), (0.0, 7, 1.0), (1.0, 7, 8.0)]
)
def test_tokens_of_a_round_are_those_of_the_paper(acceptance: float, proposed: int, tokens: float) -> None:
    """Leviathan et al., equation 1."""
    assert tokens_per_round(np.array([float(proposed)]), np.array([acceptance]))[0] == pytest.approx(tokens, abs=0.005)
    assert sum(acceptance**place for place in range(proposed + 1)) == pytest.approx(tokens, abs=0.005)


def pass_of(model: str, rows: float, new: float) -> Pass:
    """A pass of two sequences in the middle of their answers."""
    asked = {name: value for name, value in CHAT.items() if name != "gpu"} | {"model": model, "batch": 2}
    table, context = candidate(chip("H100-SXM-80GB"), **asked).table(), np.full(1, 1000 + 201 / 2)
    return forward(table, np.full(1, rows), context, np.full(1, new), head_rows=np.full(1, rows))


def test_a_round_by_hand() -> None:
    """Four passes of the draft, one of the model over five tokens of each of two sequences, and 3.3616 tokens come out."""
    draft, plain, checked = pass_of("llama-3.2-1b", 2.0, 1.0), pass_of("llama-3.1-8b", 2.0, 1.0), pass_of("llama-3.1-8b", 10.0, 5.0)
    parts = ("matmul", "attention", "elementwise", "head", "communication", "latency")
    device_s = sum(max(getattr(checked, part)[0], getattr(plain, part)[0]) for part in parts)
    vllm = ENGINES["vllm"][-1]
    round_s = 4 * draft.total[0] + max(device_s, checked.host[0]) + vllm.host_step_s + 2 * vllm.host_sequence_s
    found = tpot_s(**CHAT, batch=2, engine="vllm", **drafted())
    assert found == pytest.approx(round_s / (1 + 0.8 + 0.64 + 0.512 + 0.4096), rel=1e-9)


def test_memory_bound_decoding_gains_what_the_paper_says() -> None:
    """Theorem 3.8: (1 - a^(g+1)) / ((1 - a)·(g·c + 1)), c the draft's step over the model's, where checking costs one step.

    The engine schedules once a round, so that a draft's pass does without.
    """
    model = {**H100, "task": "generate", "input_tokens": 500, "output_tokens": 201, "engine": "vllm"}
    target, draft = tpot_s(**model, model="llama-3.1-70b", weight_dtype="fp8"), tpot_s(**model, model="llama-3.1-8b")
    host_s = ENGINES["vllm"][-1].host_step_s
    for acceptance, proposed in ((0.6, 2), (0.8, 5)):
        beside = drafted(acceptance, proposed, "llama-3.1-8b")
        gain = target / tpot_s(**model, model="llama-3.1-70b", weight_dtype="fp8", **beside)
        paper = (1 - acceptance ** (proposed + 1)) / ((1 - acceptance) * (proposed * (draft - host_s) / target + 1))
        assert gain == pytest.approx(paper, rel=0.06)


def test_without_an_acceptance_only_memory_counts() -> None:
    alone, beside = ask(**CHAT), ask(**CHAT, companions=[Companion(role="draft", model="llama-3.2-1b")])
    assert beside.request_s == alone.request_s
    assert beside.memory_bytes is not None
    assert alone.memory_bytes is not None
    assert beside.memory_bytes.weights > alone.memory_bytes.weights


def test_the_draft_reads_the_prompt_too() -> None:
    alone, draft, both = ask(**CHAT), ask(**CHAT | {"model": "llama-3.2-1b"}), ask(**CHAT, **drafted())
    assert alone.prefill_s is not None
    assert draft.prefill_s is not None
    assert both.prefill_s is not None
    host_s = ENGINES[alone.assumed["engine"]][-1].host_step_s
    assert both.prefill_s.value == pytest.approx(alone.prefill_s.value + draft.prefill_s.value - host_s, rel=1e-9)


def test_the_number_of_proposed_tokens_is_told_where_it_is_assumed() -> None:
    assert ask(**CHAT, **drafted(draft_tokens=None)).assumed["draft_tokens"] == 4
    assert "draft_tokens" not in ask(**CHAT, **drafted(draft_tokens=3)).assumed
    assert tpot_s(**CHAT, **drafted(draft_tokens=None)) == tpot_s(**CHAT, **drafted(draft_tokens=4))


SERVED: dict[str, Any] = {"task": "serve", "input_tokens": 500, "output_tokens": 200}
CASES = st.fixed_dictionaries(
    {
        "gpu": st.sampled_from(["H100-SXM-80GB", "RTX 4090", "L4", "MI300X"]),
        "model": st.sampled_from(["llama-3.1-8b", "qwen3-8b", "qwen3-30b-a3b"]),
        "engine": st.sampled_from(["vllm", "transformers", "sglang", "tensorrt-llm"]),
        "load": st.sampled_from(
            [{"task": "generate", "batch": 1}, {"task": "generate", "batch": 9}, {"task": "serve", "concurrency": 24}]
        ),
        "weight_dtype": st.sampled_from(["bf16", "fp8", "nf4"]),
        "proposed": st.integers(1, 12),
        "acceptances": st.lists(st.floats(0, 1), min_size=2, max_size=4),
    }
)


@pytest.mark.sweep
@settings(max_examples=60, deadline=None, derandomize=True)
@given(CASES)
def test_more_accepted_is_never_slower_and_nothing_accepted_never_faster(case: dict[str, Any]) -> None:
    asked = (
        {name: case[name] for name in ("gpu", "model", "engine", "weight_dtype")} | case["load"] | {"gpus": 2, "input_tokens": 300}
    )
    beside = {"companions": [Companion(role="draft", model="qwen3-0.6b")]}  # held, not timed: as much memory is left for caches
    acceptances = [0.0, *sorted(case["acceptances"])]
    plain, *found = ask_all(asked | beside, *(asked | drafted(a, case["proposed"], "qwen3-0.6b") for a in acceptances))
    if not isinstance(plain, Answer) or plain.request_s is None:
        return
    seconds = []
    for answer in found:
        assert isinstance(answer, Answer)
        assert answer.request_s is not None
        seconds.append(answer.request_s.mean.value)
    assert seconds[0] >= plain.request_s.mean.value
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(seconds))


def test_a_line_with_a_draft_does_not_change_its_neighbours() -> None:
    requests = [CHAT, CHAT | drafted(0.7, 3), CHAT | {"model": "qwen3-8b"}, CHAT | drafted(0.2, 6, "qwen3-0.6b")]
    for asked, among in zip(requests, ask_all(*requests), strict=True):
        alone = ask(**asked)
        assert isinstance(among, Answer)
        assert among.request_s == alone.request_s
        assert among.seconds_by_class == alone.seconds_by_class


def test_a_plan_is_faster_with_a_good_draft_and_says_where_the_time_goes() -> None:
    beside = {"companions": [{"role": "draft", "model": "llama-3.2-1b", "acceptance": 0.8, "draft_tokens": 4}]}
    asked = {"model": "llama-3.1-8b", **SERVED, "concurrency": 4, "gpus_considered": ["H100 SXM5 80GB"], "objective": "fastest"}
    s = session()
    plain, fast = (s.plan(s.workload(asked | more, "test"), basis="spec") for more in ({}, beside))
    rows = [next(row for row in found.rows if row.rank == 1) for found in (plain, fast)]
    assert rows[0].answer.tokens_per_s is not None
    assert rows[1].answer.tokens_per_s is not None
    assert rows[1].answer.tokens_per_s.value > 1.2 * rows[0].answer.tokens_per_s.value
    detail = s.time_detail(s.workload(asked | beside, "test"), rows[1], basis="spec")
    assert detail is not None
    assert [phase.name for phase in detail.phases()] == ["prefill", "draft prefill", "draft", "decode"]
    assert rows[1].answer.seconds_by_class is not None
    assert detail.total_s == pytest.approx(sum(rows[1].answer.seconds_by_class.values()), rel=1e-9)
    widths = {one.k for one in detail.operators if one.phase == "draft" and one.kind == "matmul"}
    assert architecture("llama-3.2-1b").width in widths, "the draft's own products"
    heads = {
        phase: next(one.m for one in detail.operators if one.phase == phase and one.kind == "head") for phase in ("draft", "decode")
    }
    assert heads["decode"] == 5 * (heads["draft"] or 0), "four proposed tokens and one more are checked at once"


@pytest.mark.parametrize(
    ("fields", "key", "words"),
    [
        (drafted(1.2), "companions[0].acceptance", "from 0 to 1"),
        (drafted(0.5, 0), "companions[0].draft_tokens", "from 1 to 32"),
        (drafted(None, 4), "companions[0].acceptance", "missing; 4 draft tokens"),
        ({"companions": [*drafted()["companions"], *drafted()["companions"]]}, "companions[1].acceptance", "only one draft"),
        ({"companions": [Companion(role="reward", acceptance=0.5)]}, "companions[0].acceptance", "'reward' proposes no tokens"),
    ],
)
def test_what_cannot_be_is_said(fields: dict[str, Any], key: str, words: str) -> None:
    (found,) = ask_all(CHAT | fields)
    assert isinstance(found, UserError)
    assert any(problem.key == key and words in problem.message for problem in found.problems), found.problems
