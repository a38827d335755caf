"""Least widths of ranges for classes of which no value is published."""

from __future__ import annotations

import numpy as np
import pytest
from engine_sample import ask, session
from ranges.residual import Residual, weights
from ranges.residuals import left_out
from ranges.unseen import FEWEST_OF_A_CLASS, OF_CLASSES, Needs

from planner.engine.explain.unseen import KINDS_OF
from planner.workload.published.spreads import KINDS, Classes, published_spreads

DENSE = {"task": "serve", "model": "llama-3.1-8b", "engine": "vllm", "input_tokens": 1000, "output_tokens": 200, "concurrency": 8}


def of_class(name: str, size: float, *, kind: str = "decode", values: int = 10, source: str = "") -> list[Residual]:
    return [Residual(kind, source or f"source of {name}", size, classes=frozenset({name})) for _ in range(values)]


def test_a_class_needs_what_most_other_classes_need() -> None:
    residuals = [one for number in range(5) for one in of_class(f"class {number}", 0.1 * (number + 1))]
    needs = Needs(residuals, weights(residuals))
    assert pytest.approx(4 / 5) == OF_CLASSES
    assert needs.least("decode") == pytest.approx(0.4, rel=1e-2)
    assert needs.classes("decode") == [f"class {number}" for number in range(5)]


def test_kinds_of_a_family_lend_their_classes_to_a_kind_that_knows_few() -> None:
    residuals = of_class("a", 0.1) + [one for name in "bcdefghi" for one in of_class(name, 0.5, kind="batch throughput")]
    needs = Needs(residuals, weights(residuals))
    assert needs.least("decode") == pytest.approx(0.5, rel=1e-2)
    assert Needs(residuals[:10], weights(residuals[:10])).least("decode") == pytest.approx(0.1, rel=1e-2)


def test_a_value_or_two_say_nothing_of_a_class() -> None:
    residuals = of_class("a", 0.1) + of_class("b", 3.0, values=FEWEST_OF_A_CLASS - 1)
    assert Needs(residuals, weights(residuals)).least("decode") == pytest.approx(0.1, rel=1e-2)


def test_memory_has_no_least_width() -> None:
    residuals = of_class("a", 0.1, kind="inference memory")
    assert Needs(residuals, weights(residuals)).least("inference memory") == 0


def test_a_class_left_out_gets_the_least_width_and_one_that_others_measured_does_not() -> None:
    rng = np.random.default_rng(5)
    residuals = [
        Residual("decode", f"source {number}", float(rng.laplace(0, 0.05 if name == "a" else 0.4)), classes=frozenset({name}))
        for number, name in enumerate("aaaabbbbc")
        for _ in range(30)
    ]
    own = np.array([one.source == "source 8" for one in residuals])
    found = left_out(residuals)
    half = found.half_widths()
    least = found.needs.least("decode", ~own)
    assert (half[own] >= least).all()
    assert (found._least_widths(0.9)[~own] == 0).all()


@pytest.mark.parametrize("task", list(KINDS_OF))
def test_every_kind_of_a_task_is_one_that_has_a_range(task: str) -> None:
    assert set(KINDS_OF[task]) <= set(KINDS)


def test_rows_of_an_unseen_class_alone_have_a_least_width() -> None:
    spreads = published_spreads()
    kind = "time to first token"
    seen, index = spreads.kinds[kind].classes[0], np.array([0, 1, 0])
    found = spreads.least_width(kind, [Classes([seen, "Unheard Of"], index)])
    assert found.tolist() == [0.0, spreads.kinds[kind].unseen, 0.0]


def test_an_architecture_without_published_latencies_says_so_and_is_no_narrower() -> None:
    seen, unseen = ask(**DENSE, gpu="H100 SXM"), ask(**DENSE, gpu="B200")
    assert "time to first token" not in seen.assumed.get("ranges_without_source", "")
    assert "time to first token" in unseen.assumed["ranges_without_source"]
    assert "Blackwell" in unseen.assumed["ranges_without_source"]
    assert unseen.ttft_s is not None
    mean = unseen.ttft_s.mean
    assert np.log(mean.high / mean.value) >= published_spreads().kinds["time to first token"].unseen - 1e-9


def test_classes_on_file_are_architectures_of_the_catalogue_or_shapes_of_models() -> None:
    known = {gpu.architecture for gpu in session().gpus.all} | {"dense models", "mixtures of experts"}
    assert {name for kind in published_spreads().kinds.values() for name in kind.classes} <= known
