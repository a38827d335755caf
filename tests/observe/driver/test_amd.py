"""AMD's GPUs through the process that asks drivers, with a stand-in for its library: values in SI, absences with reasons."""

from __future__ import annotations

from pathlib import Path

import pytest
from repository import ROOT

from planner.hardware.catalogue.gpus import load_gpus
from planner.observe.driver import driver as asked
from planner.observe.driver.driver import Driver, DriverError
from planner.observe.driver.nvml import library_installed
from planner.observe.machine import read_machine
from planner.paths import presets_folder

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def amd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine whose only driver is AMD's."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "samples" / "amdsmi_standin"))
    monkeypatch.setattr(asked, "AMD_MODULE", tmp_path)
    if library_installed():
        pytest.skip("this machine has NVIDIA's driver, which comes first")


def test_a_reading_is_in_si_and_what_is_not_told_has_a_reason() -> None:
    with Driver.start() as driver:
        first, second = driver.read(slow=True).devices
    assert (first.index, second.index, first.state) == (0, 1, "ok")
    assert first.uuid != second.uuid
    assert first.name == "AMD Instinct MI300X"
    assert (first.memory_total_bytes, first.memory_used_bytes) == (206_141_652_992, 20_000_000_000)
    assert first.memory_free_bytes == 206_141_652_992 - 20_000_000_000
    assert first.kernel_resident_fraction == pytest.approx(0.97)
    assert first.memory_active_fraction == pytest.approx(0.41)
    assert (first.power_w, first.temperature_c, first.memory_clock_hz) == (702, 61, 1.3e9)
    assert first.energy_j == pytest.approx(7e12 * 15.259e-6)
    assert first.drawn_power_w == 702
    assert first.power_average_w is None
    assert first.sm_clock_hz is None  # all bits of the field are set
    assert first.why("sm_clock_hz") == first.why("power_average_w") == "not reported by this GPU"


def test_the_machine_knows_the_part() -> None:
    machine = read_machine(load_gpus(presets_folder() / "gpus"))
    assert [local.name for local in machine.gpus] == ["MI300X", "MI300X"]
    assert (machine.nvml_state, machine.nvml_detail, machine.driver_version) == ("ready", "AMD SMI answers", "6.12.12")
    assert "MI300X" in machine.describe()


def test_calls_that_are_refused_leave_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMDSMI_STANDIN", "metrics,energy")
    with Driver.start() as driver:
        (first, _) = driver.read(slow=False).devices
    assert first.memory_used_bytes == 20_000_000_000
    assert (first.power_w, first.energy_j) == (None, None)
    assert first.why("energy_j") == "not reported by this GPU"


def test_a_library_that_does_not_start_is_a_state_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMDSMI_STANDIN", "init")
    with Driver.start() as driver, pytest.raises(DriverError) as failed:
        driver.facts()
    assert failed.value.state == "error"
    assert "AMDSMI_STATUS_NOT_SUPPORTED" in failed.value.detail


def test_without_the_library_there_is_no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(asked, "AMD_MODULE", tmp_path / "none")
    with pytest.raises(DriverError) as failed:
        Driver.start()
    assert failed.value.state == "no driver"
