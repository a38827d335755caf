"""MIG slices: what lies on a GPU, the smallest that does, and jobs that move together."""

from __future__ import annotations

import msgspec
import pytest
from rightsizing_sample import H100, cheapest, dollars, h100, sized
from telemetry_sample import snapshot_of

from planner.engine.advice.mig_slices import SliceNeed, most_of, pack, placed, smallest_for
from planner.engine.advice.observation import ObservedSlice
from planner.hardware.catalogue.mig import profiles_of
from planner.observe.snapshot import DeviceSnapshot, MigSnapshot
from planner.observe.telemetry.window import observe
from planner.session import Session
from planner.units import GIB


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("home")
    return Session.open(state=folder / "state", config=folder / "config")


@pytest.mark.sweep
def test_as_many_slices_lie_on_a_gpu_as_the_vendor_says(session: Session) -> None:
    checked = 0
    for gpu in session.gpus.all:
        counts = {profile.name: profile.count for profile in gpu.mig}
        for profile in profiles_of(gpu):
            assert most_of(profile) == counts[profile.name], (gpu.name, profile.name)
            checked += 1
        assert len(profiles_of(gpu)) == len(gpu.mig), gpu.name
    assert checked >= 60


@pytest.mark.parametrize(
    ("names", "fit"),
    [
        (["4g.40gb", "3g.40gb"], True),
        (["3g.40gb", "3g.40gb"], True),
        (["3g.40gb", "3g.40gb", "1g.10gb"], False),
        (["4g.40gb", "2g.20gb", "1g.10gb"], True),
        (["4g.40gb", "4g.40gb"], False),
        (["2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb"], True),
        (["2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb", "1g.10gb"], False),
        (["1g.20gb"] * 4, True),
        (["7g.80gb", "1g.10gb"], False),
    ],
)
def test_which_slices_lie_beside_each_other(session: Session, names: list[str], fit: bool) -> None:
    profiles = {profile.name: profile for profile in profiles_of(session.gpus.find(H100))}
    starts = placed([profiles[name] for name in names])
    assert (starts is not None) == fit
    if starts is not None:
        taken = [
            slot for name, start in zip(names, starts, strict=True) for slot in range(start, start + profiles[name].memory_slices)
        ]
        assert len(taken) == len(set(taken))
        assert max(taken) <= 7
        assert all(start in profiles[name].starts for name, start in zip(names, starts, strict=True))


def test_the_smallest_slice_has_all_that_is_needed(session: Session) -> None:
    profiles = profiles_of(session.gpus.find(H100))
    names = [
        profile.name if (profile := smallest_for(SliceNeed(sm, bandwidth, memory * GIB), profiles)) else None
        for sm, bandwidth, memory in (
            (0.1, 0.1, 5),
            (0.1, 0.1, 15),
            (0.2, 0.1, 5),
            (0.2, 0.3, 5),
            (0.45, 0.4, 30),
            (0.6, 0.1, 5),
            (0.1, 0.1, 90),
        )
    ]
    assert names == ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", None]


def test_three_small_jobs_move_onto_one_gpu(session: Session) -> None:
    small = {"sm_active": 0.15, "tensor_active": 0.05, "dram_bandwidth": 0.05, "memory_used_bytes": 15 * GIB}
    seen = [h100(index=index, **small) for index in range(3)]
    advice = session.rightsize(seen)
    (found,) = advice.together
    assert found.kind == "consolidate"
    assert found.checks == ["GPU 0 as 2g.20gb, GPU 1 as 2g.20gb, GPU 2 as 2g.20gb"]
    assert dollars(found) == pytest.approx(2 * cheapest(session, H100) * 730)
    assert advice.usd_per_month == pytest.approx(3 * cheapest(session, H100) * 730)
    assert session.rightsize([seen[0], h100(index=1, sm_active=0.9, tensor_active=0.8)]).together == []


def test_slices_that_are_too_large_are_cut_smaller(session: Session) -> None:
    name = "NVIDIA H100 80GB HBM3"
    part = MigSnapshot(
        uuid="MIG-1", profile="3g.40gb", gpu_instance=1, sm_active_fraction=0.2, dram_bandwidth_fraction=0.1,
        memory_used_bytes=5 * GIB, memory_total_bytes=39.5 * GIB,
    )  # fmt: skip
    devices = [
        DeviceSnapshot(
            index=index, uuid=f"GPU-{index}", state="ok", name=name,
            mig=(part, msgspec.structs.replace(part, uuid="MIG-2", gpu_instance=2)),
        )
        for index in range(2)
    ]  # fmt: skip
    seen = observe([snapshot_of(0, *devices), snapshot_of(1, *devices)], session.gpus)
    assert seen[0].slices[0] == ObservedSlice(
        profile="3g.40gb", uuid="MIG-1", sm_active=0.2, dram_bandwidth=0.1, memory_used_bytes=5 * GIB, memory_total_bytes=39.5 * GIB
    )
    assert seen[0].sm_active == pytest.approx(2 * 0.2 * 0.36)  # two of 3g.40gb, each 36 % of the multiprocessors
    assert seen[0].dram_bandwidth == pytest.approx(2 * 0.1 * 0.5)
    (found,) = session.rightsize(seen).together
    assert found.text.startswith("4 jobs on 1 × H100")
    assert all("1g.10gb" in words for words in found.checks)


def test_a_gpu_that_does_not_answer_is_handed_back(session: Session) -> None:
    lost = DeviceSnapshot(index=0, state="lost", name="NVIDIA H100 80GB HBM3", uuid="a")
    (seen,) = observe([snapshot_of(second, lost) for second in range(3)], session.gpus)
    one = sized(session, seen)
    assert "does not answer" in one.judgement.headline
    assert [found.kind for found in one.actions] == ["release"]
    assert dollars(one.actions[0]) == pytest.approx(cheapest(session, H100) * 730)
    assert one.rent_or_buy is None


def test_packing_is_deterministic_and_loses_nobody(session: Session) -> None:
    profiles = {profile.name: profile for profile in profiles_of(session.gpus.find(H100))}
    jobs = {f"job {number}": profiles[name] for number, name in enumerate(["1g.10gb"] * 5 + ["3g.40gb"] * 2 + ["2g.20gb"] * 3)}
    groups = pack(jobs)
    assert groups == pack(dict(reversed(jobs.items())))
    assert sorted(name for group in groups for name in group) == sorted(jobs)
    assert all(placed([jobs[name] for name in group]) is not None for group in groups)
    assert len(groups) == 3
