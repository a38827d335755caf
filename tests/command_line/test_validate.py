"""`gpu-planner validate`: the statistics by hand, what is compared with what, and the command as a process."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from published_sample import GENERATED, SERVED, TRAINED, asked, read, write
from repository import ROOT, RunPlanner

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure, Percentiles
from planner.engine.answers.memory import MemoryBytes
from planner.engine.job.engines import find_engine
from planner.engine.validation import Comparison, by_kind, compared, quantile, score, worst
from planner.errors import UserError
from planner.hardware.measurements.measurement import Measurement
from planner.hardware.measurements.store import Store
from planner.workload.published.experiments import COLUMNS
from planner.workload.published.names import published_names

# --- statistics ---------------------------------------------------------------------------------------------------------------


def comparison(measured: float, predicted: float | None, spread: float = 1.25, **more: Any) -> Comparison:
    given: dict[str, Any] = {"kind": "decode", "source": "s", "framework": "f", "experiment": "e", "line": 2, "gpu": "g"}
    low, high = (predicted / spread, predicted * spread) if predicted is not None else (None, None)
    given |= {"model": "m", "gpus": 1, "measured": measured, "predicted": predicted, "low": low, "high": high}
    return Comparison(**given | more)


def test_the_statistics_by_hand() -> None:
    group = [comparison(100, 110), comparison(100, 80), comparison(100, 150), comparison(100, 100), comparison(100, None)]
    found = score("decode", group)
    assert (found.n, found.answered) == (5, 4)
    assert found.median_error == pytest.approx(0.15)  # of 0, 0.1, 0.2, 0.5
    assert found.p90_error == pytest.approx(0.2 + 0.7 * 0.3)
    assert found.signed_error == pytest.approx(0.05)  # of -0.2, 0, 0.1, 0.5
    assert found.coverage == pytest.approx(3 / 4)  # 150 / 1.25 is above 100; 80 * 1.25 just reaches it
    assert found.width == pytest.approx(1.25**2)


def test_quantiles_lie_between_neighbours() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0], 0.9) == 3.0
    assert quantile([1.0, 2.0, 4.0], 0.75) == pytest.approx(3.0)


def test_a_wrong_fits_is_told_from_a_wrong_does_not() -> None:
    pairs = ((0.0, 1.0), (0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
    (found,) = by_kind([comparison(was, said, kind="fits") for was, said in pairs])
    assert (found.n, found.right, found.wrongly_fit, found.median_error) == (5, 2, 2, None)


def test_the_worst_come_first_and_need_three_values() -> None:
    groups = (
        [comparison(100, 300, source="tiny")] * 2 + [comparison(100, 130, source="b")] * 3 + [comparison(100, 50, source="a")] * 3
    )
    assert [one.source for one in worst(groups)] == ["a", "b"]


def answer(**fields: Any) -> Answer:
    return Answer(fits=True, reason=None, bottleneck=None, assumed={"engine": "transformers"}, **fields)


def test_memory_is_compared_as_it_was_counted(tmp_path: Path) -> None:
    rows = [
        GENERATED | {"metric": name, "value": "9", "unit": "GB", "framework": "HF transformers 4.46"}
        for name in published_names().metrics
        if "peak" in name
    ]
    (experiment,) = read(tmp_path, *rows).experiments
    parts = dict.fromkeys(("gradients", "optimizer", "activations", "logits", "buffers"), 0.0)
    total = Figure(10e9, 8e9, 12e9, "spec")
    memory = MemoryBytes(weights=6e9, kv_cache=2e9, overhead=2e9, total=total, capacity=80e9, **parts)
    found = {one.quantity: one for one in experiment.values}
    predicted = dict(
        zip((value.quantity for value in experiment.values), compared([experiment], [answer(memory_bytes=memory)]), strict=True)
    )
    context = find_engine("transformers@4.46").context_bytes
    assert set(found) == {"device_bytes", "used_bytes", "reserved_bytes", "allocated_bytes"}
    assert predicted["device_bytes"].predicted == 10e9
    assert predicted["used_bytes"].predicted == pytest.approx(10e9 + 0.011 * 80e9)
    assert predicted["used_bytes"].part_bytes == pytest.approx(-0.011 * 80e9)
    assert predicted["reserved_bytes"].predicted == pytest.approx(10e9 - context)
    assert (predicted["allocated_bytes"].predicted, predicted["allocated_bytes"].low, predicted["allocated_bytes"].high) == (
        8e9,
        6e9,
        10e9,
    )
    assert predicted["device_bytes"].kind == "inference memory"
    assert predicted["device_bytes"].known_bytes == 8e9


def test_latencies_are_compared_by_their_mean_and_refusals_stay_unanswered(tmp_path: Path) -> None:
    experiment = asked(tmp_path, SERVED | {"metric": "ttft_s"})
    figure = Figure(0.03, 0.01, 0.05, "spec")
    answered, refused = compared([experiment, experiment], [answer(ttft_s=Percentiles(mean=figure)), UserError(())])
    assert (answered.kind, answered.predicted, answered.inside) == ("time to first token", 0.03, True)
    assert answered.error == pytest.approx(0.5)
    assert (refused.predicted, refused.error, refused.inside) == (None, None, None)


# --- the command --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def published(tmp_path: Path) -> Path:
    return write(
        tmp_path / "collected",
        TRAINED,
        TRAINED | {"metric": "peak_mem_nvml", "value": "60", "unit": "GB"},
        SERVED | {"framework": "vllm 0.12.0"},
        SERVED | {"config_id": "s-2", "gpu": "Abacus 3000"},
        GENERATED | {"weight_quant": "exl2-4.0bpw", "metric": "decode_tokens_per_s", "value": "90", "unit": "tok/s"},
    )


def test_the_command_in_json(run_planner: RunPlanner, published: Path) -> None:
    done = run_planner("validate", str(published), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["folder"] == "collected"
    kinds = {one["kind"]: one for one in found["kinds"]}
    assert set(kinds) == {"training speed", "training memory", "time per output token", "decode"}
    assert kinds["training speed"]["answered"] == 1
    assert kinds["training speed"]["width"] > 1
    assert kinds["decode"]["answered"] == 0
    assert found["not_asked"] == {"GPU Abacus 3000": 1}
    assert any("exl2-4.0bpw" in words for words in found["refused"])
    assert str(published) not in done.stdout


def test_the_command_in_its_other_forms(run_planner: RunPlanner, published: Path, tmp_path: Path) -> None:
    text = run_planner("validate", str(published), "--rows", str(tmp_path / "rows.csv"))
    assert text.returncode == 0, text.stderr
    assert "'exl2-4.0bpw' is not accepted (1)" in text.stderr, "without the sixty that are"
    assert "By kind (collected: 3 experiments)" in text.stdout
    assert "GPU Abacus 3000 (1)" in text.stderr
    rows = list(csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text())))
    assert [row["kind"] for row in rows] == ["training speed", "training memory", "time per output token", "decode"]
    assert (rows[0]["measured"], rows[0]["line"], rows[3]["predicted"]) == ("3000.0", "2", "")
    assert float(rows[0]["low"]) < float(rows[0]["predicted"]) < float(rows[0]["high"])
    page = run_planner("validate", str(published), "--markdown")
    assert "| kind | n | answered | median | p90 | signed | inside | width |" in page.stdout
    scores = list(csv.DictReader(io.StringIO(run_planner("validate", str(published), "--csv").stdout)))
    assert {row["table"] for row in scores} == {"kind", "source"}
    assert {row["n"] for row in scores} == {"1"}


def test_exit_codes(run_planner: RunPlanner, published: Path, tmp_path: Path) -> None:
    nothing = run_planner("validate")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "no measurements yet" in nothing.stderr
    unknown = write(tmp_path / "unknown", SERVED | {"gpu": "Abacus 3000"})
    assert run_planner("validate", str(unknown)).returncode == 1
    write(published, SERVED | {"value": "fast"}, name="wrong.csv")
    wrong = run_planner("validate", str(published))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "wrong.csv:2: value: 'fast' is not accepted" in wrong.stderr
    assert run_planner("validate", str(published), "--only", "somebody").returncode == 0
    assert run_planner("validate", "--only", "somebody").returncode == 2
    assert run_planner("validate", str(tmp_path / "missing")).returncode == 2


def test_own_measurements_against_the_vendors_figures(run_planner: RunPlanner, tmp_path: Path) -> None:
    def point(name: str, kind: str, **more: Any) -> Measurement:
        fields: dict[str, Any] = {
            "device": "H100 SXM5 80GB",
            "fingerprint": "m-s",
            "status": "ok",
            "taken_at": "2026-01-02T03:04:05Z",
        }
        return Measurement(point=name, kind=kind, suite="quick", run="r", **fields | more)  # type: ignore[arg-type]  # test helper

    store = Store.open(tmp_path / "state")
    flop = 2.0 * 8192**3
    shape: dict[str, Any] = {"flop": flop, "bytes": 3.0 * 2 * 8192**2, "dtype": "bf16"}
    step: dict[str, Any] = {"model": "qwen3-0.6b", "batch": 8, "sequence": 2048, "recipe": "amp"}
    store.add(point("gemm/bf16/8192", "gemm", value=700e12, **shape))
    store.add(point("gemm/bf16/8192b", "gemm", value=70e12, **shape | {"status": "throttled"}))
    store.add(point("copy/1g", "copy", value=2.8e12, bytes=2e9))
    store.add(point("train/x", "train", value=3e14, flop=5.6e13, dtype="bf16", parameters=step))
    store.add(point("launch/eager", "launch", value=4e-6))
    done = run_planner("--state", str(tmp_path / "state"), "validate", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    own = {one["kind"]: one for one in found["own"]}
    assert set(own) == {"own matrix products", "own memory copies", "own training steps"}
    assert all((one["n"], one["answered"], one["source"]) == (1, 1, "H100 SXM5 80GB") for one in own.values())
    assert own["own matrix products"]["median_error"] < 0.2
    assert own["own memory copies"]["coverage"] == 1
    assert sum(found["own_left_out"].values()) == 2


def test_the_documents_name_every_column_and_metric() -> None:
    page = (ROOT / "docs" / "evidence" / "validation.md").read_text()
    missing = [name for name in (*COLUMNS, *published_names().metrics) if f"`{name}`" not in page]
    assert not missing


def test_every_reason_is_about_something_and_says_it_once() -> None:
    from planner.cli.validate.tables import known_reasons

    keys = [(one.source, one.framework, one.kind) for one in known_reasons()]
    assert len(keys) == len(set(keys))
    assert all(one.text.endswith(".") and len(one.text) > 40 for one in known_reasons())
