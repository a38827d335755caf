"""Many boards of one part: their median, their range, and the sick one named and left out."""

from __future__ import annotations

import json
import random
from pathlib import Path

import msgspec
import pytest
from measurement_sample import measurement
from repository import RunPlanner

from planner.hardware.measurements.exchange import export_document
from planner.hardware.measurements.measurement import Measurement, Run
from planner.hardware.measurements.newest import merged, outliers
from planner.hardware.measurements.store import Store

H100 = "H100 SXM5 80GB"
TRUTH = 690e12
BAD, BAD_RATIO = 41, 0.72
POINTS = [(f"gemm/bf16/{size}x{size}x{size}", size) for size in (4096, 8192, 16384)]


def board(number: int, chance: random.Random, *, ratio: float = 1.0, sigma: float = 0.01) -> list[Measurement]:
    """The products of one board, each with noise of its own."""
    return [
        measurement(
            point,
            device=H100,
            fingerprint=f"board{number:07d}-11112222",
            parameters={"m": size, "n": size, "k": size},
            value=TRUTH * ratio * chance.gauss(1.0, sigma),
            flop=2.0 * size**3,
            bytes=3 * 2.0 * size**2,
            run=f"run{number}",
            origin="imported",
        )
        for point, size in POINTS
    ]


def fleet(boards: int = 64, **changes: float) -> list[Measurement]:
    chance = random.Random(7)  # noqa: S311  # noise of a test
    return [one for number in range(boards) for one in board(number, chance, ratio=BAD_RATIO if number == BAD else 1.0, **changes)]


def test_the_median_of_64_boards_is_within_a_hundredth_of_the_truth() -> None:
    found = {one.point: one for one in merged(fleet())}
    assert len(found) == len(POINTS)
    for one in found.values():
        assert one.value == pytest.approx(TRUTH, rel=0.01)
        assert one.low is not None
        assert one.high is not None
        assert one.low > 0.95 * TRUTH
        assert one.high < 1.05 * TRUTH
        assert one.detail == "median of 63 boards, 1 left out"


def test_the_sick_board_is_named_and_nobody_else() -> None:
    (sick,) = outliers(fleet())
    assert (sick.board, sick.group, sick.boards) == (f"board{BAD:07d}", "arithmetic", 64)
    assert sick.ratio == pytest.approx(BAD_RATIO, rel=0.02)


def test_boards_that_differ_much_are_no_outliers() -> None:
    assert [one.board for one in outliers(fleet(sigma=0.06))] == [f"board{BAD:07d}"]
    assert outliers(fleet(boards=40, sigma=0.10)) == []


def test_three_boards_judge_nobody() -> None:
    chance = random.Random(1)  # noqa: S311  # noise of a test
    three = [*board(0, chance), *board(1, chance), *board(2, chance, ratio=0.5)]
    assert outliers(three) == []
    assert {one.detail for one in merged(three)} == {"median of 3 boards"}


def test_one_bad_node_imported_again_moves_nothing(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.add_all(fleet())
    before = store.latest(H100)
    chance = random.Random(9)  # noqa: S311  # noise of a test
    again = [msgspec.structs.replace(one, run="again") for one in board(BAD, chance, ratio=BAD_RATIO)]
    store.add_all([msgspec.structs.replace(one, taken_at="2026-02-01T00:00:00Z") for one in again])
    after = store.latest(H100)
    assert [one.value for one in after] == pytest.approx([one.value for one in before], rel=1e-9)


def test_ones_own_measurement_goes_before_any_number_of_others(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.add_all(fleet(boards=8))
    own = measurement(POINTS[0][0], device=H100, fingerprint="mine-1", value=600e12, run="mine", parameters={})
    store.add(own)
    found = {one.point: one.value for one in store.latest(H100)}
    assert found[POINTS[0][0]] == 600e12
    assert found[POINTS[1][0]] == pytest.approx(TRUTH, rel=0.01)


def test_a_folder_of_exports_is_imported_and_the_bad_node_named_by_its_file(run_planner: RunPlanner, tmp_path: Path) -> None:
    folder, points = tmp_path / "nodes", fleet()
    folder.mkdir()
    for number in range(64):
        mine = [one for one in points if one.run == f"run{number}"]
        run = Run(id=f"run{number}", suite="quick", device=H100, fingerprint=mine[0].fingerprint, started_at=mine[0].taken_at)
        text = export_document(mine, [run], version="0", exported_at="2026-01-02T00:00:00Z")
        (folder / f"node{number}.json").write_bytes(text)
    state = ("--state", str(tmp_path / "state"))
    done = run_planner(*state, "measurements", "import", str(folder))
    assert done.returncode == 0
    assert f"node{BAD}: 0.72 of its peers in arithmetic ({H100}, 64 boards); left out" in done.stderr
    lines = json.loads(run_planner(*state, "ceilings", H100, "--json").stdout)["lines"]
    (reached,) = [one["value"] for one in lines if one["name"] == "compute bf16"]
    (folder / f"node{BAD}.json").rename(tmp_path / "bad.json")
    other = ("--state", str(tmp_path / "without"))
    run_planner(*other, "measurements", "import", str(folder))
    lines = json.loads(run_planner(*other, "ceilings", H100, "--json").stdout)["lines"]
    assert [one["value"] for one in lines if one["name"] == "compute bf16"] == [pytest.approx(reached, rel=1e-6)]
    assert reached == pytest.approx(TRUTH, rel=0.03)  # and what the products' memory traffic takes beside
