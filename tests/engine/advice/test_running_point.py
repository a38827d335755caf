"""A running job on the roofline, by counters worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from engine_sample import session

from planner.engine.advice.observation import Observed
from planner.engine.advice.running_point import Running, running
from planner.present.machine.running import NOBODY, running_sections, sentences

H100 = session().gpus.find("H100 SXM")
PEAK, BYTES = H100.compute_flop_per_s["bf16"], H100.memory_bandwidth_bytes_per_s


def seen(**changes: Any) -> Observed:
    given = {
        "gpu": H100.name,
        "seconds": 4.0,
        "readings": 5,
        "sm_active": 0.9,
        "tensor_active": 0.5,
        "dram_bandwidth": 0.25,
        "sm_clock_hz": H100.boost_clock_hz,
    }
    return Observed(**{**given, **changes})


def found(*now: Observed, before: tuple[Observed, ...] = (), dtype: str = "bf16") -> list[Running]:
    current = session()
    return running(now, before, dtype, current.part_named, current.ceilings_cache.chips("spec"))


def test_the_point_is_the_share_of_the_pipes_and_of_the_bandwidth() -> None:
    (one,) = found(seen())
    assert one.now is not None
    assert one.now.flop_per_s == pytest.approx(0.5 * PEAK)
    assert one.now.bytes_per_s == pytest.approx(0.25 * BYTES)
    assert one.now.intensity == pytest.approx(2 * PEAK / BYTES)
    first, second = sentences(one)
    assert first.startswith("Now at most 495 TFLOP/s and ")
    assert "right of the ridge" in second
    assert "arithmetic is its roof" in second


def test_a_held_back_clock_lowers_the_rate() -> None:
    assert H100.boost_clock_hz is not None
    (one,) = found(seen(sm_clock_hz=H100.boost_clock_hz / 2))
    assert one.now is not None
    assert one.now.flop_per_s == pytest.approx(0.25 * PEAK)


def test_little_arithmetic_waits_for_memory() -> None:
    (one,) = found(seen(tensor_active=0.1, dram_bandwidth=0.8))
    assert "memory bandwidth is its roof" in list(sentences(one))[1]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tensor_active": None, "reasons": {"tensor_active": "not supported by this GPU"}}, "tensor: not supported by this GPU"),
        ({"dram_bandwidth": None}, "DRAM traffic: not read"),
        ({"tensor_active": 0.0}, "nothing to place: tensor 0 %"),
        ({"gpu": "Voodoo 2"}, "nothing is known of Voodoo 2"),
    ],
)
def test_what_is_not_known_is_said_instead_of_drawn(changes: dict[str, Any], why: str) -> None:
    (one,) = found(seen(**changes))
    assert one.now is None
    assert list(sentences(one)) == [f"No point now: {why}."]


def test_points_of_before_are_those_of_the_same_gpu() -> None:
    before = (seen(tensor_active=0.2), seen(index=1), seen(tensor_active=None))
    (one,) = found(seen(), before=before)
    assert [point.flop_per_s for point in one.before] == pytest.approx([0.2 * PEAK])


def test_a_format_the_gpu_lacks_is_named() -> None:
    (one,) = found(seen(gpu="A100 80GB SXM"), dtype="fp8")
    assert one.unknown.endswith("has no fp8 rate")
    assert running_sections([]) != running_sections([one])
    assert NOBODY in str(running_sections([]))
