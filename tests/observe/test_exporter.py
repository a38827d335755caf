"""Exporters and Prometheus servers as sources: an exporter that replays a recording, read as dcgm-exporter is, alone and through a server."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, get_args

import pytest
from repository import ROOT, RunPlanner
from telemetry_sample import WINDOWS, snapshot_of

from planner.cli.watch.table import MOST_SHOWN, telemetry_text
from planner.errors import UserError
from planner.hardware.catalogue.gpus import load_gpus
from planner.observe.snapshot import DeviceSnapshot, MigSnapshot, Snapshot
from planner.observe.telemetry.exporter import devices_of, read_exporter
from planner.observe.telemetry.exposition import prometheus_text, read_samples
from planner.observe.telemetry.metrics import Tool, meanings, metrics
from planner.observe.telemetry.recording import read_demo, read_recording
from planner.observe.telemetry.window import observe
from planner.paths import presets_folder

pytestmark = pytest.mark.server

H100 = "H100 SXM5 80GB"
MIB = 2**20


def dcgm_text(snapshot: Snapshot, host: str = "node-a", *, newer: bool = False) -> str:
    """A snapshot as dcgm-exporter would say it, in DCGM's units; `newer`: under the names of DCGM 4.6."""
    lines = ["# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).", "# TYPE DCGM_FI_DEV_SM_CLOCK gauge"]
    for gpu in snapshot.devices:
        labels = f'gpu="{gpu.index}",UUID="{gpu.uuid}",device="nvidia{gpu.index}",modelName="{gpu.name}",Hostname="{host}"'
        said: dict[str, float | None] = {
            "PROF_SM_UTIL_RATIO" if newer else "PROF_SM_ACTIVE": gpu.sm_active_fraction,
            "PROF_SM_OCCUPANCY_RATIO" if newer else "PROF_SM_OCCUPANCY": gpu.sm_occupancy_fraction,
            "PROF_TENSOR_UTIL_RATIO" if newer else "PROF_PIPE_TENSOR_ACTIVE": gpu.tensor_active_fraction,
            "PROF_DRAM_UTIL_RATIO" if newer else "PROF_DRAM_ACTIVE": gpu.dram_bandwidth_fraction,
            "DEV_GPU_UTIL": (gpu.kernel_resident_fraction or 0) * 100,
            "DEV_FB_USED": (gpu.memory_used_bytes or 0) / MIB,
            "DEV_FB_FREE": (gpu.memory_free_bytes or 0) / MIB,
            "DEV_FB_RESERVED": (gpu.memory_reserved_bytes or 0) / MIB,
            "DEV_POWER_USAGE": gpu.power_average_w,
            "DEV_POWER_MGMT_LIMIT": gpu.power_limit_w,
            "DEV_SM_CLOCK": (gpu.sm_clock_hz or 0) / 1e6,
            "DEV_MAX_SM_CLOCK": (gpu.max_sm_clock_hz or 0) / 1e6,
            "DEV_TOTAL_ENERGY_CONSUMPTION": (gpu.energy_j or 0) * 1e3,
            "DEV_CLOCKS_EVENT_REASONS": 4.0 * ("power cap" in (gpu.event_reasons or ())),
        }
        lines += [f"DCGM_FI_{name}{{{labels}}} {value}" for name, value in said.items() if value is not None]
    return "\n".join(lines) + "\n"


@contextmanager
def server(answer: Callable[[str], tuple[int, str]]) -> Iterator[str]:
    """An HTTP server that answers each path with (status, text); yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def replaying(name: str, host: str, step_s: float = 0.2) -> Callable[[str], tuple[int, str]]:
    """An exporter that goes through a recording, a reading every `step_s`, again and again."""
    snapshots = read_recording(WINDOWS / f"{name}.jsonl").snapshots
    began_s = time.monotonic()
    return lambda _: (200, dcgm_text(snapshots[int((time.monotonic() - began_s) / step_s) % len(snapshots)], host))


@pytest.mark.parametrize("newer", [False, True])
def test_dcgm_says_the_same_as_the_driver(newer: bool) -> None:
    snapshot = read_demo().snapshots[20]
    with server(lambda _: (200, dcgm_text(snapshot, newer=newer))) as address:
        seen = read_exporter(f"{address}/metrics")
    assert seen.source == seen.badge == f"{address}/metrics"
    assert len(seen.devices) == 2
    for read, true in zip(seen.devices, snapshot.devices, strict=True):
        for field in (
            "index", "uuid", "name", "sm_active_fraction", "sm_occupancy_fraction", "tensor_active_fraction", "dram_bandwidth_fraction",
            "kernel_resident_fraction", "memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes", "memory_total_bytes",
            "power_average_w", "power_limit_w", "sm_clock_hz", "max_sm_clock_hz", "energy_j", "event_reasons",
        ):  # fmt: skip
            expected = getattr(true, field)
            assert getattr(read, field) == (pytest.approx(expected) if isinstance(expected, float) else expected), field
        assert read.temperature_c is None
        assert read.why("temperature_c") == "the exporter does not report it"


def test_our_own_text_reads_back_value_by_value() -> None:
    snapshot = read_demo().snapshots[20]
    read = devices_of(read_samples(prometheus_text(snapshot), "text"))
    told = [
        name
        for name in DeviceSnapshot.__struct_fields__
        if name.endswith(("fraction", "_bytes", "_w", "_j", "_hz", "_c", "_per_s"))
    ]
    assert len(told) > 25
    for seen, true in zip(read, snapshot.devices, strict=True):
        for field in set(told) - {"throttled_fraction"}:
            assert getattr(seen, field) == getattr(true, field), field
        assert seen.event_reasons == (true.event_reasons or None)


def test_the_text_is_what_the_format_asks_for() -> None:
    device = DeviceSnapshot(
        index=0, state="ok", name='odd "name" with \\ and\nline', uuid="GPU-1", sm_active_fraction=0.5, power_w=0.0
    )
    lost = DeviceSnapshot(index=1, state="lost", name="NVIDIA H100")
    text = prometheus_text(snapshot_of(0, device, lost))
    lines = text.splitlines()
    assert "# TYPE gpu_planner_sm_active_ratio gauge" in lines
    assert r'gpu_planner_sm_active_ratio{gpu="0",uuid="GPU-1",name="odd \"name\" with \\ and\nline"} 0.5' in lines
    assert [line for line in lines if line.startswith("gpu_planner_power_watts")] == [
        r'gpu_planner_power_watts{gpu="0",uuid="GPU-1",name="odd \"name\" with \\ and\nline"} 0.0'
    ]
    assert [line.rsplit(" ", 1)[1] for line in lines if line.startswith("gpu_planner_up{")] == ["1.0", "0.0"]
    assert "None" not in text
    assert "nan" not in text
    first, second = devices_of(read_samples(text, "text"))
    assert (first.name, first.sm_active_fraction, first.power_w) == (device.name, 0.5, 0.0)
    assert (second.index, second.sm_active_fraction) == (1, None)


def test_odd_samples() -> None:
    text = (
        '# a comment\n\nDCGM_FI_PROF_SM_ACTIVE{gpu="0",modelName="NVIDIA H100 80GB HBM3", UUID="GPU-1",} 2.5e-1 1700000000000\n'
        'DCGM_FI_PROF_DRAM_ACTIVE{gpu="0"} NaN\nDCGM_FI_DEV_FB_USED{gpu="0",GPU_I_ID="3",GPU_I_PROFILE="1g.10gb"} 100\n'
        'process_cpu_seconds_total 12\nDCGM_FI_DEV_XID_ERRORS{gpu="0"} 0\n'
    )
    (gpu,) = devices_of(read_samples(text, "text"))
    assert gpu.sm_active_fraction == 0.25
    assert gpu.dram_bandwidth_fraction is None
    assert gpu.memory_used_bytes is None
    (part,) = gpu.mig
    assert (part.profile, part.gpu_instance, part.memory_used_bytes) == ("1g.10gb", 3, 100 * MIB)
    assert math.isinf(read_samples("up +Inf", "text")[0].value)
    with pytest.raises(UserError, match="line 1"):
        read_samples("<!doctype html>", "text")
    assert [one.name for one in read_samples('a 1\nb{c="d} 1', "text")] == ["a"]


ALL_SMI = """\
# HELP all_smi_gpu_utilization GPU utilization percentage (omitted when the device reports no utilization)
# TYPE all_smi_gpu_utilization gauge
all_smi_gpu_utilization{gpu="NVIDIA H200", instance="node-a", gpu_uuid="GPU-a", gpu_index="0"} 42
all_smi_gpu_memory_used_bytes{gpu="NVIDIA H200", instance="node-a", gpu_uuid="GPU-a", gpu_index="0"} 8589934592
all_smi_gpu_memory_total_bytes{gpu="NVIDIA H200", instance="node-a", gpu_uuid="GPU-a", gpu_index="0"} 150754820096
all_smi_gpu_temperature_celsius{gpu="NVIDIA H200", instance="node-a", gpu_uuid="GPU-a", gpu_index="0"} 51
all_smi_gpu_power_consumption_watts{gpu="NVIDIA H200", instance="node-a", gpu_uuid="GPU-a", gpu_index="0"} 611.5
all_smi_gpu_power_limit_current_watts{gpu="NVIDIA H200", instance="node-a", gpu_uuid="GPU-a", gpu_index="0"} 700
all_smi_gpu_frequency_mhz{gpu="NVIDIA H200", instance="node-a", gpu_uuid="GPU-a", gpu_index="0"} 1755
all_smi_gpu_clock_graphics_max_mhz{gpu="NVIDIA H200", instance="node-a", gpu_uuid="GPU-a", gpu_index="0"} 1980
all_smi_gpu_performance_state{gpu="NVIDIA H200", instance="node-a", gpu_uuid="GPU-a", gpu_index="0"} 0
all_smi_gpu_memory_used_bytes{gpu="NVIDIA H200", instance="node-a", gpu_uuid="GPU-b", gpu_index="1"} 0
all_smi_gpu_memory_total_bytes{gpu="NVIDIA H200", instance="node-a", gpu_uuid="GPU-b", gpu_index="1"} 150754820096
all_smi_cpu_utilization{cpu="AMD EPYC 9554", instance="node-a", index="0"} 12
"""
"""Lines as all-smi 0.26 writes them (lablup/all-smi src/api/metrics/gpu.rs); the second GPU reports no use, as a new one does not."""


@pytest.mark.parametrize("renamed", [False, True])
def test_a_page_of_all_smi_by_hand(*, renamed: bool) -> None:
    """Before 0.21 its labels were `uuid` and `index`; `gpu` is the model in both."""
    text = ALL_SMI.replace("gpu_uuid", "uuid").replace("gpu_index", "index") if renamed else ALL_SMI
    first, second = devices_of(read_samples(text, "text"))
    assert (first.index, first.uuid, first.name) == (0, "GPU-a", "NVIDIA H200")
    assert (first.kernel_resident_fraction, first.temperature_c) == (0.42, 51.0)
    assert (first.memory_used_bytes, first.memory_total_bytes) == (8 * 2**30, 150_754_820_096)
    assert (first.power_average_w, first.power_limit_w) == (611.5, 700.0)
    assert (first.sm_clock_hz, first.max_sm_clock_hz) == (1.755e9, 1.98e9)
    assert first.sm_active_fraction is None
    assert first.reasons["sm_active_fraction"] == "the exporter does not report it"
    assert (second.index, second.kernel_resident_fraction, second.memory_used_bytes) == (1, None, 0)


def test_a_page_of_all_smi_that_is_cut_off_gives_what_it_has() -> None:
    cut = ALL_SMI[: ALL_SMI.index(" 611.5")]
    (first,) = devices_of(read_samples(cut, "text"))
    assert (first.temperature_c, first.power_average_w) == (51.0, None)
    with server(lambda _: (200, ALL_SMI)) as address:
        assert [device.name for device in read_exporter(address).devices] == ["NVIDIA H200", "NVIDIA H200"]


def test_slices_whose_number_the_driver_keeps_are_told_apart_by_their_uuid() -> None:
    """`None` is no number: the label stays away, and neither slice is taken for the whole GPU."""
    parts = tuple(MigSnapshot(uuid=f"MIG-{n}", profile="1g.10gb", dram_bandwidth_fraction=n / 10) for n in (1, 2))
    numbered = MigSnapshot(uuid="MIG-3", profile="2g.20gb", gpu_instance=5, dram_bandwidth_fraction=0.3)
    whole = DeviceSnapshot(index=0, uuid="GPU-a", state="ok", dram_bandwidth_fraction=0.9, mig=(*parts, numbered))
    text = prometheus_text(snapshot_of(0.0, whole))
    assert "None" not in text
    assert {line.split('mig_uuid="')[1][:5] for line in text.splitlines() if "mig_gpu_instance" in line} == {"MIG-3"}
    (read,) = devices_of(read_samples(text, "text"))
    assert read.dram_bandwidth_fraction == 0.9
    assert {(part.uuid, part.gpu_instance, part.dram_bandwidth_fraction) for part in read.mig} == {
        ("MIG-1", None, 0.1),
        ("MIG-2", None, 0.2),
        ("MIG-3", 5, 0.3),
    }


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (200, "node_load1 0.5\n", "has no metric of a GPU"),
        (200, "<html>", "is not the text format"),
        (503, "warming up", "503"),
    ],
)
def test_an_exporter_that_is_none_is_said(status: int, text: str, said: str) -> None:
    with server(lambda _: (status, text)) as address, pytest.raises(UserError, match=said):
        read_exporter(address)


def command(*options: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "planner", *options], cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
    )


@pytest.mark.process
def test_an_exporter_is_watched_judged_and_missed(tmp_path: Path) -> None:
    with server(replaying("launch-bound", "node-a")) as address:
        once = command("watch", "--source", f"{address}/metrics", "--once")
        assert once.returncode == 0, once.stderr
        assert once.stdout.startswith(f" {address}/metrics ")
        assert "28 %" in once.stdout or "27 %" in once.stdout or "29 %" in once.stdout
        assert "CPU" not in once.stdout
        judged = command("rightsize", "--source", f"{address}/metrics", "--seconds", "3", "--json", "--state", str(tmp_path))
        advice = json.loads(judged.stdout)
        assert advice["gpus"][0]["judgement"]["limiter"] == "launch/host"
        assert advice["gpus"][0]["observed"]["readings"] >= 3


def test_several_exporters_are_judged_together(run_planner: RunPlanner) -> None:
    with server(replaying("launch-bound", "node-a")) as one, server(replaying("idle", "node-b")) as other:
        sources = ("--source", f"{one}/metrics", "--source", f"{other}/metrics")
        done = run_planner("rightsize", *sources, "--seconds", "2", "--json")
        gone = run_planner("rightsize", *sources, "--source", "http://127.0.0.1:9/metrics", "--seconds", "1")
    advice = json.loads(done.stdout)
    limiters = {row["observed"]["host"]: row["judgement"]["limiter"] for row in advice["gpus"]}
    assert limiters == {one.removeprefix("http://"): "launch/host", other.removeprefix("http://"): "idle"}
    assert sum(group["gpus"] for group in advice["fleet"]["by_host"]) == 2
    assert gone.returncode == 2
    assert "http://127.0.0.1:9/metrics cannot be reached" in gone.stderr


def test_an_exporter_that_goes_away_and_comes_back_is_waited_for() -> None:
    from planner.cli.watch.source import Origin

    alive = True
    text = dcgm_text(read_demo().snapshots[20])
    seen: list[Snapshot] = []
    with server(lambda _: (200, text) if alive else (503, "")) as address:
        stream = Origin(source=address).stream(seen.append, 0.1)
        stream.start()
        ends_s = time.monotonic() + 60
        while len(seen) < 2 and time.monotonic() < ends_s:
            time.sleep(0.02)
        alive = False
        while (stale_s := stream.stale_for_s()) is None and time.monotonic() < ends_s:
            time.sleep(0.02)
        count = len(seen)
        alive = True
        while len(seen) == count and time.monotonic() < ends_s:
            time.sleep(0.02)
        assert stream.stop(60.0)
    assert stale_s is not None
    assert stale_s > 1.0
    assert len(seen) > count >= 2
    assert stream.failure is None


def test_reading_many_gpus_takes_time_in_proportion() -> None:
    def seconds(gpus: int) -> float:
        page = "".join(f'DCGM_FI_DEV_GPU_UTIL{{gpu="{one}",UUID="GPU-{one}",modelName="X"}} 5\n' for one in range(gpus))
        began_s = time.process_time()
        snapshot = snapshot_of(0.0, *devices_of(read_samples(page, "page")))
        prometheus_text(snapshot)
        shown = telemetry_text(snapshot, 120).plain
        assert len(snapshot.devices) == gpus
        assert f"… and {gpus - MOST_SHOWN:,} more GPUs" in shown
        return time.process_time() - began_s

    seconds(1000)
    assert seconds(20_000) < 40 * seconds(2000)  # 10 times as long; 100 times where it grows with the square


def test_a_large_machine_is_judged_in_sums_unless_each_is_asked_for(run_planner: RunPlanner) -> None:
    page = "".join(f'DCGM_FI_DEV_GPU_UTIL{{gpu="{number}",modelName="NVIDIA H100 80GB HBM3"}} 5\n' for number in range(40))
    with server(lambda _: (200, page)) as address:
        summed = run_planner("rightsize", "--source", address, "--seconds", "1")
        each = run_planner("rightsize", "--source", address, "--seconds", "1", "--each")
    assert "By verdict" in summed.stdout
    assert "GPU 7  " not in summed.stdout
    assert "GPU 7  " in each.stdout


def page(*labels: str, metric: str = "DCGM_FI_DEV_GPU_UTIL") -> str:
    """One sample a GPU: 1 % of the first, 2 % of the second."""
    return "".join(f"{metric}{{{one}}} {number}\n" for number, one in enumerate(labels, 1))


@pytest.mark.parametrize("host", ["Hostname", "hostname", "node", "instance"])
@pytest.mark.parametrize("uuid", ['UUID="GPU-{}"', 'uuid="GPU-{}"', ""])
def test_gpus_of_several_hosts_on_one_page_are_told_apart(host: str, uuid: str) -> None:
    labels = [f'gpu="0",{host}="{name}",{uuid.format(name)}' for name in "ab"]
    text = page(*labels) + page(*labels, metric="DCGM_FI_DEV_GPU_TEMP")
    found = devices_of(read_samples(text, "page"))
    assert [(gpu.place, gpu.kernel_resident_fraction, gpu.temperature_c) for gpu in found] == [("a 0", 0.01, 1), ("b 0", 0.02, 2)]
    assert [line.split()[:2] for line in telemetry_text(snapshot_of(0.0, *found), 120).plain.splitlines()[1:3]] == [
        ["a", "0"],
        ["b", "0"],
    ]
    again = devices_of(read_samples(prometheus_text(snapshot_of(0.0, *found)), "page"))
    assert [(gpu.place, gpu.temperature_c) for gpu in again] == [("a 0", 1), ("b 0", 2)]


def test_gpus_of_one_index_and_two_uuids_are_two() -> None:
    found = devices_of(read_samples(page('gpu="0",UUID="GPU-a"', 'gpu="0",UUID="GPU-b"'), "page"))
    assert [(gpu.uuid, gpu.kernel_resident_fraction) for gpu in found] == [("GPU-a", 0.01), ("GPU-b", 0.02)]


@pytest.mark.parametrize(
    ("short", "joined"),
    [
        ('UUID="GPU-a"', "a 0"),
        ('gpu="1"', "b 1"),
        ('gpu="0",Hostname="b"', "b 0"),
        ('gpu="1",instance="b"', "b 1"),
        ('gpu="0"', None),  # of either host
        ('gpu="0",Hostname="c"', None),
    ],
)
def test_a_sample_that_says_less_belongs_to_the_only_gpu_it_can_mean(short: str, joined: str | None) -> None:
    whole = ('gpu="0",UUID="GPU-a",Hostname="a"', 'gpu="0",UUID="GPU-b",Hostname="b"', 'gpu="1",UUID="GPU-c",Hostname="b"')
    found = devices_of(read_samples(page(*whole) + page(short, metric="DCGM_FI_DEV_GPU_TEMP"), "page"))
    warm = [gpu for gpu in found if gpu.temperature_c == 1]
    assert len(found) == 3 + (joined is None)
    assert [gpu.place for gpu in warm if gpu.kernel_resident_fraction is not None] == ([joined] if joined else [])


def test_gpus_of_several_hosts_are_observed_apart() -> None:
    found = devices_of(read_samples(page('gpu="0",Hostname="a"', 'gpu="0",Hostname="b"'), "page"))
    seen = observe([snapshot_of(float(second), *found) for second in range(3)], load_gpus(presets_folder() / "gpus"))
    assert [(one.host, one.index, one.readings) for one in seen] == [("a", 0, 3), ("b", 0, 3)]


def test_every_name_of_a_tool_means_a_field_of_a_snapshot_and_no_name_means_two() -> None:
    assert metrics().keys() <= set(DeviceSnapshot.__struct_fields__)
    for tool in get_args(Tool):
        spelled = [name for metric in metrics().values() if (spelling := getattr(metric, tool)) for name in spelling.names]
        assert len(spelled) == len(set(spelled)) == len(meanings(tool)) > 0
