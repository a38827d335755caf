"""Training memory against PyTorch: what one layer keeps, and the peak of a whole step, over recipes, optimizers and families."""

from __future__ import annotations

from statistics import median, quantiles
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from engine_sample import candidate, chip
from memory_cases import GOLDEN, GPT2, LLAMA, Case, cases, compute
from memory_comparison import compared

from planner.engine.memory import memory_of

if TYPE_CHECKING:
    from memory_oracle import Seen

SPOT_CHECKS = {
    Case(model=LLAMA, recipe="amp", checkpointing="full", micro_batch=4, sequence=512).key,
    Case(model=GPT2, recipe="mixed", micro_batch=4, sequence=512).key,
}
"""Few of the golden values, computed in every run, so that the oracle itself is tried."""


def described(case: Case, error: float) -> str:
    return f"{error:+.2%} {case.model['model_type']} {case}"


@pytest.mark.sweep
def test_there_are_enough_cases() -> None:
    assert len(compared()) >= 60


@pytest.mark.sweep
def test_what_a_layer_keeps_is_what_autograd_saves() -> None:
    errors = [(layer / seen.layer - 1, case) for case, seen, layer, _ in compared() if case.checkpointing in {"none", "selective"}]
    wrong = [described(case, error) for error, case in errors if abs(error) > 0.02]
    assert not wrong, "\n".join(wrong)
    assert len(errors) > 40


def test_the_peak_of_a_step_is_where_pytorch_has_it() -> None:
    errors = sorted(((abs(peak / seen.peak - 1), case) for case, seen, _, peak in compared()), key=lambda found: found[0])
    sizes = [error for error, _ in errors]
    worst = "\n".join(described(case, error) for error, case in errors[-8:])
    assert median(sizes) <= 0.005, worst
    assert quantiles(sizes, n=10)[-1] <= 0.02, worst
    assert sizes[-1] <= 0.05, worst


SMALL = Case(model=LLAMA | {"vocab_size": 1000}, recipe="fp32", micro_batch=1, sequence=16)
"""A step whose peak is the optimizer's."""


@pytest.fixture(scope="module")
def seen(torch: ModuleType) -> Seen:
    """The small step, followed in PyTorch here and now."""
    from memory_oracle import run

    return run(SMALL)


@pytest.mark.parametrize("part", ["weights", "gradients", "optimizer"])
def test_states_are_what_pytorch_holds(seen: Seen, part: str) -> None:
    """Parameter for parameter."""
    asked: dict[str, Any] = {"recipe": "fp32", "micro_batch": 1, "sequence": 16, "engine": "torch"}
    found = memory_of(candidate(chip("H100-SXM-80GB"), model=SMALL.model, task="train", **asked).table())
    assert float(getattr(found, part)[0]) == pytest.approx(seen.parts[part], rel=1e-3)


@pytest.mark.parametrize("case", [case for case in cases() if case.key in SPOT_CHECKS], ids=lambda case: case.recipe)
def test_golden_values_are_what_pytorch_gives_today(torch: ModuleType, case: Case) -> None:
    assert compute(case) == GOLDEN.values[case.key]


def test_every_case_has_a_golden_value_of_the_oracle_as_it_is() -> None:
    assert set(GOLDEN.values) == {case.key for case in cases()}, "make oracles"
    assert GOLDEN.made_from == GOLDEN.digests(), "make oracles"


def test_what_lives_is_what_pytorchs_own_tracker_sees(torch: ModuleType) -> None:
    """Our count of storages against torch's `MemTracker`, which follows the same step in its own way."""
    from fake_torch import quiet
    from memory_oracle import build, run
    from torch.distributed._tools.mem_tracker import MemTracker

    case = Case(model=LLAMA, micro_batch=4, sequence=512)
    with quiet():
        model = build(case, torch.bfloat16)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
        ids = torch.zeros((case.micro_batch, case.sequence), dtype=torch.int64)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with tracker:
            for _ in range(2):
                outputs = model(input_ids=ids, labels=ids)
                outputs.loss.backward()
                del outputs
                optimizer.step()
                optimizer.zero_grad()
                tracker.reset_mod_stats()
    (peak,) = (found["Total"] for found in tracker.get_tracker_snapshot("peak").values())
    assert run(case).peak == pytest.approx(peak, rel=1e-4)
