"""Collectives measured over several nodes: found again in the ceilings, in what steps take, and only where they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from repository import RunPlanner

from planner.engine.answers.answer import Answer, LayoutAnswer
from planner.engine.answers.plan import PlanRow
from planner.engine.evaluate.candidates import candidate_of
from planner.engine.job.resolve import resolve
from planner.engine.performance.operators.chip import chip_of, with_fabric
from planner.engine.performance.operators.communication import collective_s
from planner.errors import UserError
from planner.hardware.catalogue.interconnects import fabric_of
from planner.hardware.ceilings.calibration import ceilings_of
from planner.hardware.ceilings.ceilings import COLLECTIVE_KNEE
from planner.hardware.measurements.exchange import export_document, read_document
from planner.hardware.measurements.measurement import Measurement
from planner.session import Session
from planner.workload.architecture import Models
from planner.workload.tasks import Request

H100, L40S = "H100 SXM5 80GB", "L40S"
SIZES = tuple(2**power for power in (15, 18, 20, 22, 24, 26, 28, 30))
LATENCY_S, RATE = 90e-6, 140e9
TRAINING = {"model": "llama-3.1-70b", "gpu": H100, "task": "train", "tp": 8, "dp": 2, "sharding": "zero1", "recipe": "bf16"}


def seconds(wire: float, latency_s: float = LATENCY_S, rate: float = RATE) -> float:
    q = COLLECTIVE_KNEE
    return float((latency_s**q + (wire / rate) ** q) ** (1 / q))


def measured(
    gpu: str = H100,
    nodes: int = 2,
    per_node: int = 8,
    *,
    op: str = "all_reduce",
    latency_s: float = LATENCY_S,
    rate: float = RATE,
    fabric: str | None = "infiniband",
    **changes: Any,
) -> Measurement:
    """What nodes with that latency and that rate would have been measured to do."""
    ranks = nodes * per_node
    wire = (2.0 if op == "all_reduce" else 1.0) * (ranks - 1) / ranks
    series = [[size, seconds(wire * size, latency_s, rate)] for size in SIZES]
    value = wire * SIZES[-1] / series[-1][1]
    point = Measurement(
        point=f"collective/{op}/{ranks}/{nodes}-nodes",
        kind="collective",
        device=gpu,
        fingerprint="machine-software",
        parameters={"op": op, "ranks": ranks, "nodes": nodes, "backend": "nccl", "series": series}
        | ({"fabric": fabric} if fabric else {}),
        value=value,
        low=value * 0.99,
        high=value * 1.01,
        status="ok",
        taken_at="2026-01-01T00:00:00Z",
        suite="collectives",
        run="20260101T000000Z-abcdef",
    )
    return msgspec.structs.replace(point, **changes)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session.open(state=tmp_path / "state", config=tmp_path / "config")


def ring_s(session: Session, points: list[Measurement], wire: float, *, nodes: int, per_node: int = 8, **more: Any) -> float:
    """By the engine: `wire` bytes a rank around a ring that fills `nodes`."""
    gpu = session.gpus.find(more.get("gpu", H100))
    chip = chip_of(gpu, ceilings_of(gpu, session.ceiling_records, points), "bf16", "bf16")
    assert chip is not None
    chip = with_fabric(chip, more["fabric"]) if "fabric" in more else chip
    gpus = nodes * per_node
    job = resolve(
        session.presets.load("llama-3.1-8b-pretrain").workload, Models(session.architecture("llama-3.1-8b")), headroom=0.1
    )
    layout = LayoutAnswer(gpus=gpus, dp=gpus, nodes=nodes, gpus_per_node=more.get("host", per_node))
    table = candidate_of(job, chip, layout).table()
    rate = fabric_of(gpu, more.get("fabric"), layout.gpus_per_node)[1]
    table = replace(table, layout=replace(table.layout, fabric_bytes_per_s=np.array([rate])))
    return float(collective_s(table, np.array([float(gpus)]), np.array([wire]), per_node=np.array([float(per_node)]))[0])


def answer(session: Session, **changes: Any) -> Answer:
    (found,) = session.estimate([msgspec.convert({**TRAINING, **changes}, Request)])
    assert isinstance(found, Answer)
    return found


@pytest.mark.parametrize("per_node", [1, 4, 8])
@pytest.mark.parametrize(("latency_s", "rate"), [(90e-6, 140e9), (25e-6, 420e9), (400e-6, 9e9)])
def test_the_time_of_every_message_comes_back(session: Session, latency_s: float, rate: float, per_node: int) -> None:
    points = [measured(per_node=per_node, latency_s=latency_s, rate=rate)]
    for wire in (1e3, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10):
        expected = seconds(wire, latency_s, rate)
        assert ring_s(session, points, wire, nodes=2, per_node=per_node) == pytest.approx(expected, rel=0.03), wire


def test_what_noise_leaves_of_it(session: Session) -> None:
    point = measured()
    wobble = [1.01, 0.99, 1.01, 0.99, 1.01, 0.99, 1.01, 0.99]
    series = [[size, took * by] for (size, took), by in zip(point.parameters["series"], wobble, strict=True)]
    noisy = msgspec.structs.replace(point, parameters={**point.parameters, "series": series})
    for wire in (1e4, 1e9):
        assert ring_s(session, [noisy], wire, nodes=2) == pytest.approx(seconds(wire), rel=0.03)


def test_measured_counts_of_nodes_hold_and_others_lean_on_them(session: Session) -> None:
    few, many = measured(nodes=2, rate=200e9), measured(nodes=8, rate=50e9, latency_s=300e-6)
    points = [few, many]
    wire = 1e12
    assert ring_s(session, points, wire, nodes=2) == pytest.approx(seconds(wire, LATENCY_S, 200e9), rel=0.03)
    assert ring_s(session, points, wire, nodes=8) == pytest.approx(seconds(wire, 300e-6, 50e9), rel=0.03)
    between = ring_s(session, points, wire, nodes=4)
    assert ring_s(session, points, wire, nodes=2) < between < ring_s(session, points, wire, nodes=8)
    assert between == pytest.approx(wire / 100e9, rel=0.03)  # half way in the logarithm of the count

    third = [*points, measured(nodes=4, rate=180e9, latency_s=500e-6)]
    for nodes, latency_s, rate in ((2, LATENCY_S, 200e9), (4, 500e-6, 180e9), (8, 300e-6, 50e9)):
        for moved in (1e4, 1e12):
            assert ring_s(session, third, moved, nodes=nodes) == pytest.approx(seconds(moved, latency_s, rate), rel=0.03)

    slow = [measured(rate=20e9)]
    off = [ring_s(session, slow, 1e11, nodes=nodes) / ring_s(session, [], 1e11, nodes=nodes) for nodes in (2, 4, 8, 64)]
    assert off[1] == pytest.approx(off[0] ** 0.5, rel=0.02)
    assert off[2] == pytest.approx(off[0] ** 0.25, rel=0.02)
    assert off == sorted(off, reverse=True)
    assert off[3] < 1.2


def test_a_ring_with_fewer_ranks_in_a_node_has_their_adapters_alone(session: Session) -> None:
    one = ring_s(session, [measured()], 1e11, nodes=2, per_node=1, host=8)
    assert one == pytest.approx(1e11 / (RATE / 8), rel=0.03)


@pytest.mark.parametrize(
    ("others", "asked"),
    [
        ([measured(gpu="H200 SXM")], {}),
        ([measured(fabric="ethernet")], {}),
        ([measured(fabric=None, origin="imported")], {}),
        ([measured(status="shared")], {}),
        ([measured(quarantine="no")], {}),
        ([measured(op="all_gather")], {}),
        ([measured(fabric="pigeons")], {}),
        ([measured()], {"fabric": 50e9}),
        ([measured()], {"fabric": "ethernet"}),
    ],
)
def test_it_is_applied_to_no_other_part_and_no_other_network(
    session: Session, others: list[Measurement], asked: dict[str, Any]
) -> None:
    assert ring_s(session, others, 1e9, nodes=2, **asked) == ring_s(session, [], 1e9, nodes=2, **asked)


def test_a_point_that_names_no_network_is_of_the_usual_one(session: Session) -> None:
    assert ring_s(session, [measured(fabric=None)], 1e9, nodes=2) == pytest.approx(seconds(1e9), rel=0.03)
    shared = [measured(L40S, fabric=None, rate=8e9)]
    assert ring_s(session, shared, 1e9, nodes=2, gpu=L40S) == pytest.approx(seconds(1e9, LATENCY_S, 8e9), rel=0.03)


def test_a_network_that_was_asked_for_is_the_one_measured(session: Session) -> None:
    told = ring_s(session, [measured(fabric="ethernet", rate=9e9)], 1e9, nodes=2, fabric="ethernet")
    assert told == pytest.approx(seconds(1e9, LATENCY_S, 9e9), rel=0.03)


def test_inside_a_node_nothing_changes(session: Session) -> None:
    assert ring_s(session, [measured(rate=1e9)], 1e9, nodes=1) == ring_s(session, [], 1e9, nodes=1)


def test_ceilings_keep_what_was_measured_with_its_basis_and_range(session: Session) -> None:
    gpu = session.gpus.find(H100)
    (found,) = ceilings_of(gpu, session.ceiling_records, [measured()]).node_collectives
    assert (found.op, found.nodes, found.gpus, found.gpus_per_node, found.fabric) == ("all_reduce", 2, 16, 8, "infiniband")
    assert found.latency_s.value == pytest.approx(LATENCY_S, rel=0.03)
    assert found.bytes_per_s.value == pytest.approx(RATE, rel=0.03)
    assert found.adapters_bytes_per_s == 8 * fabric_of(gpu, None, 8)[1]
    assert found.efficiency == pytest.approx(RATE / 400e9, rel=0.03)
    assert (found.bytes_per_s.basis, found.latency_s.basis) == ("measured", "measured")
    assert found.bytes_per_s.low < RATE < found.bytes_per_s.high
    (other,) = ceilings_of(gpu, session.ceiling_records, [measured(origin="imported")]).node_collectives
    assert other.bytes_per_s.basis == "public"
    assert ceilings_of(gpu, session.ceiling_records).node_collectives == ()


def test_estimates_over_nodes_follow_and_those_of_one_node_do_not(session: Session) -> None:
    asked: dict[str, dict[str, Any]] = {
        "one": {"dp": 1},
        "two": {},
        "two, named": {"fabric": "infiniband"},
        "two, given": {"fabric": 50e9},
        "four": {"dp": 4},
    }
    before = {name: answer(session, **changes) for name, changes in asked.items()}
    session.store.add(measured(rate=20e9))
    session.refresh()
    after = {name: answer(session, **changes) for name, changes in asked.items()}
    took = {name: (before[name].step_s.value, after[name].step_s.value) for name in asked}  # type: ignore[union-attr]  # they train
    assert took["one"][0] == took["one"][1]
    assert took["two, given"][0] == took["two, given"][1]
    assert took["two"][1] > 1.1 * took["two"][0]
    assert took["two, named"] == took["two"]
    assert took["four"][1] > took["four"][0]
    assert "between_nodes" not in after["one"].assumed
    told = after["two"].assumed["between_nodes"]
    assert told.startswith("measured: all-reduce of 16 over 2 nodes")
    assert "benchmark: collective/all_reduce/16/2-nodes" in told
    assert "between_nodes" not in before["two"].assumed


def test_a_row_is_the_same_alone_and_among_rows_that_were_not_measured(session: Session) -> None:
    session.store.add(measured(rate=20e9))
    session.refresh()
    asked: list[dict[str, Any]] = [{}, {"gpu": "H200 SXM"}, {"dp": 4}, {"fabric": 50e9}, {"dp": 1}, {"gpu": L40S, "tp": 4}]
    requests = [msgspec.convert({**TRAINING, **changes}, Request) for changes in asked]
    for together, request in zip(session.estimate(requests), requests, strict=True):
        (alone,) = session.estimate([request])
        assert isinstance(together, Answer)
        assert isinstance(alone, Answer)
        assert together.step_s == alone.step_s
        assert together.seconds_by_class == alone.seconds_by_class


def test_a_plan_ranks_by_what_the_nodes_were_measured_to_do(session: Session) -> None:
    asked = msgspec.structs.replace(
        session.presets.load("llama-3.1-8b-pretrain").workload, gpus_considered=(H100, "H200 SXM"), max_gpus=16
    )

    def rows() -> dict[Any, PlanRow]:
        found = session.plan(asked, levers=False)
        return {
            (row.gpu, row.answer.layout.text, row.answer.layout.gpus, row.offer and (row.offer.provider, row.offer.instance)): row
            for row in found.rows
            if row.answer.layout and row.answer.step_s
        }

    before = rows()
    session.store.add(measured(rate=5e9))
    session.refresh()
    after = rows()
    moved = {key for key in before.keys() & after.keys() if before[key].answer.step_s != after[key].answer.step_s}
    over = {key for key, row in before.items() if row.answer.layout and row.answer.layout.nodes > 1}
    assert moved
    assert moved <= over
    assert {key[0] for key in moved} == {H100}
    assert all(before[key].answer.step_s.value < after[key].answer.step_s.value for key in moved)  # type: ignore[union-attr]  # as above


def test_what_was_measured_travels(session: Session, tmp_path: Path) -> None:
    gpu = session.gpus.find(H100)
    rows = [measured(), measured(nodes=4, rate=60e9), measured(op="all_gather")]
    text = export_document(rows, [], version="0.1.0", exported_at="2026-01-02T00:00:00Z")
    _, back = read_document(text, "f", "imported", session.part_named)
    assert back == tuple(msgspec.structs.replace(row, origin="imported") for row in rows)
    assert not any(row.quarantine for row in back)
    for nodes, rate in ((2, RATE), (4, 60e9)):
        assert ring_s(session, list(back), 1e9, nodes=nodes) == pytest.approx(seconds(1e9, LATENCY_S, rate), rel=0.03)
    assert {one.bytes_per_s.basis for one in ceilings_of(gpu, session.ceiling_records, back).node_collectives} == {"public"}


def test_the_ceilings_in_use_show_it(run_planner: RunPlanner, tmp_path: Path) -> None:
    inside = measured(nodes=1, rate=300e9, latency_s=20e-6, fabric=None)
    inside = msgspec.structs.replace(inside, point="collective/all_reduce/8", parameters={**inside.parameters, "nodes": 1})
    text = export_document([measured(), inside], [], version="0.1.0", exported_at="2026-01-02T00:00:00Z")
    (tmp_path / "figures.json").write_bytes(text)
    assert run_planner("measurements", "import", str(tmp_path / "figures.json")).returncode == 0
    lines = {line["name"]: line for line in json.loads(run_planner("ceilings", H100, "--json").stdout)["lines"]}
    across = lines["all-reduce of 16 over 2 nodes (infiniband)"]
    assert (across["basis"], across["unit"]) == ("public", "B/s")
    assert across["source"] == "benchmark on another machine: collective/all_reduce/16/2-nodes"
    assert across["value"] == pytest.approx(RATE, rel=0.03)
    assert across["before"] == pytest.approx(0.8 * 400e9)
    assert lines["all-reduce of 16 over 2 nodes (infiniband), latency"]["value"] == pytest.approx(LATENCY_S, rel=0.03)
    assert lines["all-reduce of 8 (nvlink)"]["value"] == pytest.approx(300e9, rel=0.03)
    assert lines["all-reduce of 8 (nvlink)"]["before"] > lines["all-reduce of 8 (nvlink)"]["value"]
    shown = run_planner("ceilings", H100)
    people = shown.stdout
    assert "nothing measured" not in shown.stderr
    assert "all-reduce of 16 over 2 nodes (infiniband): 320 GB/s → 140 GB/s, public" in people
    assert "over 2 nodes" not in run_planner("ceilings", H100, "--basis", "spec").stdout


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"nodes": 3}, "parameters.nodes: 16 ranks do not fill 3 nodes"),
        ({"nodes": "2"}, "parameters.nodes"),
        ({"ranks": 1}, "parameters.ranks"),
        ({"op": "allreduce"}, "parameters.op"),
        ({"series": [[32768]]}, "parameters.series"),
        ({"series": [[32768, -1.0], [65536, 1.0]]}, "parameters.series"),
        ({"fabric": "pigeons"}, "parameters.fabric"),
    ],
)
def test_a_collective_that_cannot_be_read_is_refused(session: Session, changes: dict[str, Any], told: str) -> None:
    point = measured()
    document = json.loads(export_document([point], [], version="0.1.0", exported_at="2026-01-02T00:00:00Z"))
    document["measurements"][0]["parameters"] |= changes
    with pytest.raises(UserError) as wrong:
        read_document(json.dumps(document).encode(), "f", "imported", session.part_named)
    assert told in str(wrong.value)
