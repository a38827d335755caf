"""Classes of GPUs and models of which no value is published, in answers and in the fitted file."""

from __future__ import annotations

import numpy as np
import pytest
from engine_sample import ask, session

from planner.engine.evaluate.ranges import Ranges
from planner.engine.explain.range_ends import KINDS_OF
from planner.engine.job.engines import ENGINES
from planner.paths import read_shipped
from planner.workload.published.spreads import KINDS, PROGRAM_OPEN, Classes, Collected, published_spreads

DENSE = {"task": "serve", "model": "llama-3.1-8b", "engine": "vllm", "input_tokens": 1000, "output_tokens": 200, "concurrency": 8}


@pytest.mark.parametrize("task", list(KINDS_OF))
def test_every_kind_of_a_task_is_one_that_has_a_range(task: str) -> None:
    assert set(KINDS_OF[task]) <= set(KINDS)


def test_an_architecture_without_published_latencies_says_so() -> None:
    seen, beside, unseen = (ask(**DENSE, gpu=gpu) for gpu in ("H100 SXM", "B200", "MI300X"))
    assert "time to first token" not in seen.assumed.get("ranges_without_source", "")
    assert beside.assumed["ranges_without_source"] == "no published time per output token of Blackwell"
    assert "time to first token" in unseen.assumed["ranges_without_source"]
    assert "CDNA 3" in unseen.assumed["ranges_without_source"]


def test_times_of_a_class_without_published_values_have_a_wider_range() -> None:
    spreads = published_spreads()
    known = spreads.kinds["time to first token"].classes
    assert {"Hopper", "CDNA 3"} & set(known) == {"Hopper"}
    classes = (Classes(["Hopper", "CDNA 3"], np.array([0, 1, 0])), Classes(["dense models"], np.zeros(1, dtype=int)))
    ranges = Ranges({}, np.zeros(1), np.ones(1), classes=classes)
    seen, unseen, again = ranges.half_width("time to first token")
    assert seen == again
    assert unseen == pytest.approx(seen * spreads.unseen_class)
    assert spreads.unseen_class > 1.1


def test_speed_of_an_open_program_has_a_wider_range() -> None:
    spreads, collected = published_spreads(), read_shipped(Collected, "spreads", "collected.toml")
    named, program = Ranges({PROGRAM_OPEN: np.array([0.0, 1.0])}, np.zeros(1), np.ones(1)).half_width("training speed")
    assert program == pytest.approx(named * collected.open_programs["training speed"])
    assert spreads.slope("training speed", PROGRAM_OPEN) > 0
    trained = {"task": "train", "model": "llama-3.1-8b", "gpu": "H100 SXM", "gpus": 8}
    library, none = (ask(**trained, engine=engine) for engine in ("torch@2025-06", None))
    assert library.evidence[PROGRAM_OPEN] == 1
    assert PROGRAM_OPEN not in none.evidence


def test_a_service_whose_engine_has_no_published_values_says_so_and_has_a_wider_range() -> None:
    spreads = published_spreads()
    known, other, unnamed = (ask(**DENSE | {"gpu": "H100 SXM", "engine": engine}) for engine in ("vllm", "lmdeploy", None))
    assert "vLLM" not in known.assumed.get("ranges_without_source", "")
    assert "LMDeploy" in other.assumed["ranges_without_source"]
    assert "ranges_without_source" not in unnamed.assumed
    classes = (Classes(["vLLM", "LMDeploy", None], np.arange(3)),)
    seen, unseen, none = Ranges({}, np.zeros(1), np.ones(1), classes=classes).half_width("serving throughput")
    assert unseen == pytest.approx(seen * spreads.unseen_class)
    assert none == seen


def test_classes_on_file_are_architectures_of_the_catalogue_shapes_of_models_or_engines_of_services() -> None:
    known = {gpu.architecture for gpu in session().gpus.all} | {"dense models", "mixtures of experts"}
    engines = {record.label for records in ENGINES.values() for record in records}
    for kind, spread in published_spreads().kinds.items():
        assert set(spread.classes) <= (known | engines if KINDS[kind] == "service" else known), kind
