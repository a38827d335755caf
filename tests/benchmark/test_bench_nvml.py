"""The worker's own look at NVML, against a library that aborts when its contracts are broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nvml_stub import A100, COMPILER, H100, ControlFile, run_python

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")


@pytest.fixture
def control(tmp_path: Path) -> ControlFile:
    return ControlFile(tmp_path / "control")


REGION = """
import json, pathlib, sys, time
from bench.machine.nvml import Meter, between
control = pathlib.Path({control!r})
meter = Meter.open({uuid!r})
assert meter is not None
first = meter.read(); meter.mark(0)
time.sleep({seconds})
text = control.read_text()
for old, new in {changes!r}: text = text.replace(old, new)
control.write_text(text)
last = meter.read(); meter.mark(1)
told, why = between(first, last)
print(json.dumps([told | meter.counters() | {{"seconds": last.at_s - first.at_s}}, why]))
meter.close()
"""


def region(
    library: Path, control: ControlFile, *changes: tuple[str, str], uuid: str = str(H100["uuid"]), seconds: float = 0.15
) -> tuple[dict[str, float], str]:
    code = REGION.format(control=str(control.path), uuid=uuid, seconds=seconds, changes=list(changes))
    done = run_python(code, library, control)
    assert done.returncode == 0, done.stderr
    told, why = json.loads(done.stdout)
    return told, why


def test_a_region_is_told_with_clocks_power_and_counters(library: Path, control: ControlFile) -> None:
    control.devices(A100, H100)
    told, why = region(library, control, ("sm_clock = 1755", "sm_clock = 1655"))
    assert told["sm_clock_hz"] == 1.705e9
    assert told["power_limit_w"] == 700
    assert (told["sm_active"], told["tensor_active"], told["dram_active"]) == (0.925, 0.6125, 0.33)
    assert "energy_j" not in told
    assert why == ""


def test_power_is_that_of_the_moment_where_the_driver_tells_it(library: Path, control: ControlFile) -> None:
    """The older call gives the mean of a second on Ampere and later, which in a short region is the power of what ran before."""
    control.devices({**H100, "power_usage": 612000, "power_instant": 431000})
    assert region(library, control)[0]["power_w"] == 431
    control.set(**{"0.power_instant": None})
    assert region(library, control)[0]["power_w"] == 612


def test_energy_is_a_difference_over_a_second_or_more(library: Path, control: ControlFile) -> None:
    control.devices(H100)
    told, _ = region(library, control, ("energy = 123456789012", "energy = 123456795012"), seconds=1.05)
    assert told["energy_j"] == pytest.approx(6000 / 1000, rel=1e-6)
    assert told["seconds"] >= 1.05
    assert told["power_w"] == pytest.approx(6 / told["seconds"], rel=1e-6)


def test_heat_and_brakes_are_throttling_and_the_power_cap_is_not(library: Path, control: ControlFile) -> None:
    control.devices(H100)
    told, why = region(library, control, ("throttle_power = 5000000000", "throttle_power = 5150000000"))
    assert told["power_limited_share"] == pytest.approx(min(1.0, 0.15 / told["seconds"]), abs=1e-3)
    assert why == ""
    control.devices(H100)
    _, why = region(library, control, ("throttle_brake = 0", "throttle_brake = 75000000"))
    assert "the power brake" in why


def test_an_older_gpu_tells_what_it_has(library: Path, control: ControlFile) -> None:
    control.devices({**A100, "event_reasons": 0x40})
    told, why = region(library, control, uuid="aaaaaaaa-BBBB-cccc-dddd-eeeeeeeeeeee")
    assert "sm_active" not in told
    assert told["event_reasons"] == 0x40
    assert "held down" in why


def test_no_such_gpu_is_no_meter(library: Path, control: ControlFile) -> None:
    control.devices(H100, A100)
    code = "from bench.machine.nvml import Meter, memory_in_use; print(Meter.open('nobody'), Meter.open(None), memory_in_use())"
    done = run_python(code, library, control)
    assert done.stdout.startswith("None None {'11111111-2222-3333-4444-555555555555': 21474836480.0"), done.stderr
    control.devices(H100)
    done = run_python(
        "from bench.machine.nvml import Meter; m = Meter.open(None); print(m.busy_percent(), m.used_bytes())", library, control
    )
    assert done.stdout == "97 21474836480.0\n", done.stderr


def test_without_a_driver_there_is_no_meter() -> None:
    from bench.machine.nvml import Meter, memory_in_use

    assert Meter.open("x") is None or memory_in_use()
