"""Logs of nvidia-smi and saved pages of exporters, replayed as recordings.

`query.csv` is shaped after a log in a computing centre's documentation (V100, times and use as there), `dmon.txt` after a reading in a
public issue (three of four GPUs); columns and a second reading were added.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from repository import ROOT, RunPlanner
from telemetry_sample import WINDOWS
from test_exporter import dcgm_text

from planner.errors import UserError
from planner.observe.telemetry.recording import read_recording

LOGS = ROOT / "tests" / "data" / "telemetry_logs"


def test_a_query_log_by_hand() -> None:
    found = read_recording(LOGS / "query.csv")
    assert len(found.snapshots) == 3
    assert found.seconds == pytest.approx(10.005)
    first, second = found.snapshots[0].devices
    assert first.name == "Tesla V100-SXM2-32GB"
    assert (first.kernel_resident_fraction, first.memory_used_bytes) == (0.99, 30994 * 2**20)
    assert (first.sm_clock_hz, first.power_average_w, first.event_reasons) == (1530e6, 280.11, ("power cap",))
    assert second.kernel_resident_fraction == 0.0
    assert found.snapshots[1].devices[1].memory_active_fraction is None
    assert first.why("sm_active_fraction") == "the log does not have it"
    assert [device.index for device in found.snapshots[2].devices] == [0]  # the line of the other was cut off


def test_dmon_by_hand() -> None:
    found = read_recording(LOGS / "dmon.txt")
    assert [len(snapshot.devices) for snapshot in found.snapshots] == [3, 3]
    assert found.seconds == 1.0
    third = found.snapshots[0].devices[2]
    assert (third.kernel_resident_fraction, third.sm_clock_hz, third.memory_used_bytes) == (1.0, 1192e6, 48243 * 2**20)
    assert third.memory_temperature_c is None


def test_times_of_dmon_count_where_it_writes_them(tmp_path: Path) -> None:
    log = tmp_path / "dmon.log"
    log.write_text(
        "#Date       Time        gpu   pwr    sm\n 20260101   10:00:00      0   100    50\n 20260101   10:00:30      0   120    70\n"
    )
    assert read_recording(log).seconds == 30.0


def test_logs_are_judged(run_planner: RunPlanner) -> None:
    done = run_planner("rightsize", "--replay", str(LOGS / "query.csv"), "--json")
    assert done.returncode == 0
    busy, idle = json.loads(done.stdout)["gpus"]
    assert (busy["observed"]["busy"], idle["judgement"]["limiter"]) == (1.0, "idle")
    undated = run_planner("watch", "--replay", str(LOGS / "dmon.txt"), "--once")
    assert undated.returncode == 0
    assert "no date stated" in undated.stdout.splitlines()[0]


def test_a_saved_page_is_one_reading(tmp_path: Path) -> None:
    (true,) = read_recording(WINDOWS / "launch-bound.jsonl").snapshots[3].devices
    page = tmp_path / "metrics.txt"
    page.write_text(dcgm_text(read_recording(WINDOWS / "launch-bound.jsonl").snapshots[3]))
    (snapshot,) = read_recording(page).snapshots
    assert snapshot.devices[0].sm_active_fraction == true.sm_active_fraction
    assert snapshot.source == "replay metrics.txt"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("utilization.gpu [%], memory.used [MiB]\n99 %, 100 MiB\n", "has no column timestamp"),
        ("timestamp, utilization.gpu [%]\n2020/11/12 13:4", "without a reading"),
        ("# gpu    pwr\n# Idx      W\n", "without a reading"),
        ("hello\n", "is not a recording of telemetry"),
    ],
)
def test_a_log_that_cannot_be_read_is_one_message(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(UserError, match=said) as told:
        read_recording(path)
    assert len(told.value.problems) == 1


def test_import_sends_a_log_where_it_belongs(run_planner: RunPlanner) -> None:
    done = run_planner("measurements", "import", str(LOGS / "query.csv"))
    assert done.returncode == 2
    assert "gpu-planner rightsize --replay" in done.stderr
