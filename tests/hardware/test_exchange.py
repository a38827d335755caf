"""Measurements passed on and taken in: nobody's name in the file, every row checked, the impossible kept apart."""

from __future__ import annotations

import getpass
import json
import socket
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from measurement_sample import measurement
from repository import RunPlanner

from planner.errors import UserError
from planner.hardware.catalogue.gpus import GpuCatalogue, load_gpus
from planner.hardware.ceilings.calibration import ceilings_of
from planner.hardware.ceilings.records import load_ceiling_records
from planner.hardware.measurements.exchange import export_document, load_shipped, read_document, with_shipped
from planner.hardware.measurements.measurement import UNITS, Measurement, Prediction, Run
from planner.hardware.measurements.plausibility import implausibility
from planner.hardware.measurements.store import Store
from planner.paths import presets_folder
from planner.session import Session


@pytest.fixture(scope="module")
def gpus() -> GpuCatalogue:
    return load_gpus(presets_folder() / "gpus")


LARGE = {
    "device": "H100 SXM5 80GB",
    "fingerprint": "aaaabbbbcccc-11112222",
    "parameters": {"m": 8192, "n": 8192, "k": 8192},
    "value": 700e12,
    "low": 690e12,
    "high": 710e12,
    "run": "20260101T000000Z-abcdef",
    "flop": 2.0 * 8192**3,
    "bytes": 3 * 2.0 * 8192**2,
}


def measured(point: str = "gemm/bf16/8192x8192x8192", **changes: Any) -> Measurement:
    return measurement(point, **LARGE | changes)


RUN = Run(
    id="20260101T000000Z-abcdef",
    suite="quick",
    device="H100 SXM5 80GB",
    fingerprint="aaaabbbbcccc-11112222",
    started_at="2026-01-01T00:00:00Z",
    state="finished",
    environment={"torch": "2.13.0", "kernel": "6.1.0-box7", "flags": {"fp32_precision": "ieee"}},
)


def exported(*rows: Measurement, private: tuple[str, ...] = ()) -> bytes:
    return export_document(rows, [RUN], version="0.1.0", exported_at="2026-01-02T00:00:00Z", private=private)


def changed(text: bytes, place: int = 0, **fields: Any) -> bytes:
    document = json.loads(text)
    document["measurements"][place] |= fields
    return json.dumps(document).encode()


def test_what_is_exported_comes_back_whole(gpus: GpuCatalogue) -> None:
    rows = (measured(), measured("launch/eager", kind="launch", dtype=None, value=4e-6, low=3e-6, high=5e-6, flop=None))
    runs, back = read_document(exported(*rows), "f", "imported", gpus.find)
    assert runs == (RUN,)
    assert back == tuple(msgspec.structs.replace(row, origin="imported") for row in rows)
    assert {row["unit"] for row in json.loads(exported(*rows))["measurements"]} == {"FLOP/s", "s"}


def test_free_text_tells_nobody_where(gpus: GpuCatalogue) -> None:
    failed = measured(
        "gemm/fp8/64x64x64",
        value=None,
        low=None,
        high=None,
        status="error",
        detail="RuntimeError: /home/ada/torch/lib/x.so on Box7 by ada, ~/code/y.py, C:\\Users\\ada\\z: 3 FLOP/s",
    )
    text = exported(failed, private=("box7", "ada", "/home/ada")).decode()
    for private in ("box7", "Box7", "ada", "/home", "y.py", "Users"):
        assert private not in text
    assert "3 FLOP/s" in text
    ((only,)) = read_document(text.encode(), "f", "imported", gpus.find)[1]
    assert only.status == "error"


def test_every_faulty_row_is_named_and_nothing_is_taken() -> None:
    text = changed(exported(*(measured(str(number)) for number in range(6))), 0, unit="GFLOP/s")
    text = changed(changed(changed(text, 1, value=-1.0), 2, kind="gem"), 3, colour="blue")
    with pytest.raises(UserError) as wrong:
        read_document(text, "file.json", "imported", lambda _: None)
    told = str(wrong.value)
    assert "measurements[2].kind" in told
    assert "'gemm'" in told
    assert "measurements[3].colour" in told
    text = changed(
        changed(changed(exported(*(measured(str(n)) for n in range(4))), 0, unit="GFLOP/s"), 1, value=-1.0), 2, low=800e12
    )
    text = changed(text, 3, value=None, taken_at="yesterday")
    with pytest.raises(UserError) as wrong:
        read_document(text, "file.json", "imported", lambda _: None)
    for words in (
        "measurements[0].unit: 'GFLOP/s' is not the unit of gemm: FLOP/s",
        "measurements[1].value: -1 is not a positive",
        "measurements[2].value: 7e+14 does not lie between",
        "measurements[3].value: is missing",
        "measurements[3].taken_at: 'yesterday'",
    ):
        assert words in str(wrong.value)


@pytest.mark.parametrize(("text", "words"), [(b"{", "is not JSON"), (b"[]", "no 'schema'"), (b'{"schema": 9}', "of schema 9")])
def test_a_file_of_another_kind_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(UserError, match=words):
        read_document(text, "f", "imported", lambda _: None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"value": 1.2e15, "high": None}, "1.21 times its dense bf16 peak, 989 TFLOP/s"),
        ({"value": 1.03e15, "high": None}, ""),
        ({"dtype": "fp4", "value": 9e15, "high": None}, ""),
        ({"kind": "copy", "dtype": None, "value": 3.6e12, "low": None, "high": None, "flop": None}, "times its memory's 3.35 TB/s"),
        ({"kind": "gemv", "value": 9e12, "low": None, "high": None, "parameters": {"cache": "warm"}}, ""),
        ({"kind": "launch", "value": 1e-9, "low": None, "high": None}, "less than any device takes"),
        ({"kind": "decode", "value": 1000.0, "low": None, "high": None, "bytes": 16e9}, "times its memory's"),
        ({"kind": "transfer", "value": 600e9, "low": None, "high": None}, "one direction of its links"),
        ({"kind": "memory", "value": 200e9, "low": None, "high": None}, "more than its memory"),
        ({"value": None, "low": None, "high": None, "status": "oom"}, ""),
    ],
)
def test_physics_is_held_against_the_vendors_figures(gpus: GpuCatalogue, changes: dict[str, Any], words: str) -> None:
    reason = implausibility(measured(**changes), gpus.find("H100 SXM5 80GB"))
    assert words in reason
    assert bool(words) == bool(reason)


def test_a_processors_figures_hold_for_its_own_number_of_cores(tmp_path: Path) -> None:
    from planner.observe.machine import cpu_key

    session = Session.open(state=tmp_path, config=tmp_path)
    cpu = session.machine.cpu
    rows = [measured(device=cpu.name, value=1e9, low=None, high=None, fingerprint=f"{key}-11112222") for key in (cpu_key(cpu), "x")]
    rows[1] = msgspec.structs.replace(rows[1], point="gemm/bf16/1")
    here, other = read_document(exported(*rows), "f", "imported", session.part_named, cpu_key(cpu))[1]
    assert here.reliable
    assert "number of cores" in other.quarantine
    assert not read_document(exported(rows[0]), "f", "shipped", session.part_named)[1][0].reliable


def test_the_key_of_this_processor_is_the_benchmarks(torch: ModuleType) -> None:
    from bench.machine.environment import find_device, machine_parts
    from bench.protocol import machine_key
    from planner.observe.cpu import read_cpu
    from planner.observe.machine import cpu_key

    assert cpu_key(read_cpu()) == machine_key(machine_parts(find_device("cpu")))


def test_quarantined_results_are_seen_and_never_used(gpus: GpuCatalogue, tmp_path: Path) -> None:
    impossible = measured(value=2e15, low=1.9e15, high=2.1e15)
    _, (row,) = read_document(exported(impossible), "f", "imported", gpus.find)
    assert "2.02 times" in row.quarantine
    assert not row.reliable
    store = Store.open(tmp_path)
    assert store.add_all([row], [RUN])[0] == 1
    assert store.add_all([row], [RUN])[0] == 0
    assert store.all() == (row,)
    assert store.latest() == ()
    h100 = gpus.find("H100 SXM5 80GB")
    records = load_ceiling_records(presets_folder() / "ceilings")
    assert ceilings_of(h100, records, store.latest()) == ceilings_of(h100, records)


def test_of_one_point_ones_own_counts_before_others(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.add(measured(run="a", value=600e12, low=None, high=None))
    store.add(measured(run="b", origin="imported", taken_at="2026-02-01T00:00:00Z"))
    assert [one.run for one in store.latest()] == ["a"]
    assert [one.run for one in store.latest(without_run="a")] == ["b"]
    shipped = [measured(run="s", origin="shipped"), measured("copy/memory", run="s", origin="shipped")]
    assert [(one.run, one.point) for one in with_shipped(store.latest(), shipped)] == [
        ("a", "gemm/bf16/8192x8192x8192"),
        ("s", "copy/memory"),
    ]


def test_figures_of_other_machines_are_published_ones_with_a_wider_range(gpus: GpuCatalogue) -> None:
    h100 = gpus.find("H100 SXM5 80GB")
    records = load_ceiling_records(presets_folder() / "ceilings")
    own = ceilings_of(h100, records, [measured()]).compute_flop_per_s["bf16"]
    other = ceilings_of(h100, records, [measured(origin="imported")]).compute_flop_per_s["bf16"]
    assert (own.basis, other.basis) == ("measured", "public")
    assert own.value == other.value
    assert other.spread > own.spread + 0.04
    assert "another machine" in other.source


def test_what_is_shipped_is_read_by_the_same_rules(gpus: GpuCatalogue, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(exported(measured(), measured("x", value=2e15, low=None, high=None)))
    good, bad = load_shipped(tmp_path, gpus.find)
    assert (good.origin, good.quarantine, bool(bad.quarantine)) == ("shipped", "", True)
    (tmp_path / "b.json").write_bytes(changed(exported(measured()), 0, unit="s"))
    with pytest.raises(UserError, match=r"b\.json: measurements\[0\]\.unit"):
        load_shipped(tmp_path, gpus.find)
    load_shipped(presets_folder() / "measurements", gpus.find)


def test_every_kind_has_a_unit() -> None:
    from typing import get_args

    from planner.hardware.measurements.measurement import MeasurementKind

    assert set(UNITS) == set(get_args(MeasurementKind))


def test_predictions_are_kept_beside_what_came_out(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    assert store.predictions() == ()
    one = Prediction(
        run="r",
        point="train/a",
        device="H100 SXM5 80GB",
        kind="train",
        predicted=120.0,
        low=90.0,
        high=150.0,
        basis="spec",
        measured=100.0,
        measured_at="2026-01-01T00:00:00Z",
        version="0.1.0",
    )
    store.add_prediction(one)
    store.add_prediction(msgspec.structs.replace(one, predicted=1.0))
    assert Store.open(tmp_path).predictions() == (one,)
    assert one.error == pytest.approx(0.2)
    assert one.low <= one.measured <= one.high
    store.add(measured("train/a", run="r"))
    store.remove(store.all())
    assert store.predictions() == ()


def test_the_command_line_passes_on_takes_in_and_forgets(run_planner: RunPlanner, tmp_path: Path) -> None:
    from planner.paths import state_folder

    store = Store.open(state_folder())
    store.add_run(RUN)
    store.add(measured())
    store.add(
        measured("copy/memory", kind="copy", dtype=None, value=3e12, low=None, high=None, flop=None, detail=f"{Path.home()}/x")
    )
    assert run_planner("measurements", "export", "--out", "mine.json").returncode == 0
    text = (tmp_path / "mine.json").read_text()
    for private in (socket.gethostname(), getpass.getuser(), str(Path.home()), str(tmp_path)):
        assert private not in text
    assert '"fingerprint":"aaaabbbbcccc-11112222"' in text

    state = ("--state", str(tmp_path / "other"))
    document = json.loads(text)
    document["measurements"][1] |= {"value": 9e12}
    (tmp_path / "theirs.json").write_text(json.dumps(document))
    taken = run_planner(*state, "measurements", "import", "theirs.json")
    assert taken.returncode == 0, taken.stderr
    assert "2 measurements imported" in taken.stdout
    assert "quarantined" in taken.stderr
    listed = json.loads(run_planner(*state, "measurements", "list", "--json").stdout)
    assert [(one["origin"], bool(one["quarantine"])) for one in listed] == [("imported", False), ("imported", True)]
    assert "times its memory's" in run_planner(*state, "measurements", "--quarantined", COLUMNS="250").stdout
    shown = run_planner(*state, "measurements", "show", listed[0]["id"])
    assert "700 TFLOP/s" in shown.stdout
    wrong = run_planner(*state, "measurements", "show", listed[0]["id"][:-1] + "z")
    assert wrong.returncode == 2
    assert "Did you mean" in wrong.stderr

    asked = run_planner(*state, "measurements", "remove", "--quarantined")
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    assert "1 measurement removed" in run_planner(*state, "measurements", "remove", "--quarantined", "--yes").stdout
    assert "1 measurement removed" in run_planner(*state, "measurements", "remove", RUN.id, "--yes").stdout
    assert run_planner(*state, "measurements").returncode == 1
    assert run_planner("measurements", "remove").returncode == 2


def test_the_ceilings_in_use_say_what_measuring_changed(run_planner: RunPlanner) -> None:
    from planner.paths import state_folder

    before = json.loads(run_planner("ceilings", "H100 SXM5 80GB", "--json").stdout)
    lines = {line["name"]: line for line in before["lines"]}
    assert lines["compute bf16"]["before"] is None
    assert lines["compute bf16"]["low"] < lines["compute bf16"]["value"] < lines["compute bf16"]["high"] < 1.3 * 989e12
    store = Store.open(state_folder())
    store.add(measured(value=640e12, low=None, high=None))
    after = json.loads(run_planner("ceilings", "h100 sxm5 80gb", "--json").stdout)
    line = next(line for line in after["lines"] if line["name"] == "compute bf16")
    assert (line["basis"], line["before"]) == ("measured", lines["compute bf16"]["value"])
    assert line["value"] == pytest.approx(640e12, rel=0.03)
    (residual,) = after["residuals"]
    assert abs(residual["error"]) < 0.02
    told = run_planner("ceilings", "H100 SXM5 80GB").stdout
    assert "→ 6" in told
    assert "TFLOP/s, measured" in told
    spec = json.loads(run_planner("ceilings", "H100 SXM5 80GB", "--basis", "spec", "--json").stdout)
    assert spec["lines"] == before["lines"]
    assert "H100 SXM5 80GB" in run_planner("ceilings").stdout
    assert run_planner("ceilings", "H1000").returncode == 2


def test_a_measured_context_goes_before_the_engines_record(tmp_path: Path) -> None:
    def overhead(session: Session, engine: str, basis: str) -> tuple[float, str]:
        fields = {"model": "Qwen/Qwen3-0.6B", "task": "train", "micro_batch": 1, "sequence": 512, "engine": engine}
        if engine == "vllm":
            fields = {"model": "Qwen/Qwen3-0.6B", "task": "generate", "batch": 1, "input_tokens": 128, "output_tokens": 128}
        workload = session.workload({**fields, "gpus_considered": ["H100 SXM5 80GB"], "max_gpus": 1})
        plan = session.plan(workload, basis=basis)  # type: ignore[arg-type]  # one of two words
        row = next(row for row in plan.rows if row.gpu == "H100 SXM5 80GB")
        detail = session.memory_detail(workload, row, basis=basis)  # type: ignore[arg-type]  # as above
        assert detail is not None
        assert row.answer.memory_bytes is not None
        items = [item for item in detail.items if item.component == "overhead"]
        assert row.answer.memory_bytes.overhead == pytest.approx(sum(item.bytes for item in items))
        context = next(item for item in items if item.name.startswith("context"))
        return context.bytes, context.source

    session = Session.open(state=tmp_path / "state", config=tmp_path)
    engines = overhead(session, "torch", "measured")
    assert engines[0] == 0.5 * 2**30
    assert "measured" not in engines[1]
    graphs = overhead(session, "vllm", "measured")[0] - engines[0]
    session.store.add(measured("memory/context", kind="memory", dtype=None, value=6e8, low=None, high=None, flop=None, bytes=None))
    session.refresh()
    assert overhead(session, "torch", "measured") == (6e8, "measured on this part")
    assert overhead(session, "torch", "spec") == engines
    assert overhead(session, "vllm", "measured")[0] == pytest.approx(6e8 + graphs)
    lines = session.ceilings(session.gpus.find("H100 SXM5 80GB"))
    assert lines.context_bytes is not None
    assert lines.context_bytes.basis == "measured"
