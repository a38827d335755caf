"""Who uses a GPU: what the driver lists, read through the real bindings, and what the system tells of each process."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nvml_stub import A100, COMPILER, H100, ControlFile, build, environment
from repository import ROOT

from planner.observe.driver.processes import HOST_PID_NAMESPACE, IN_A_CONTAINER, ProcessTable
from planner.observe.snapshot import ProcessSnapshot

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler to build the stand-in with")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


def watch(library: Path, control: ControlFile, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "planner", "watch", "--once", "--processes", *options],
        env=environment(library, control, COLUMNS="160"), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def devices(library: Path, control: ControlFile, *options: str) -> list[dict[str, Any]]:
    done = watch(library, control, "--json", *options)
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.stdout)["devices"]
    return found


@needs_compiler
def test_a_real_process_is_told_with_its_memory_command_and_user(
    library: Path, control: ControlFile, sleeper: subprocess.Popen[bytes]
) -> None:
    control.devices(
        H100 | {
            "proc0.pid": 4_000_000, "proc0.memory": 512 << 20, "proc1.pid": sleeper.pid, "proc1.memory": 3 << 30,
            "proc2.pid": sleeper.pid, "proc2.memory": 3 << 30, "proc2.kind": "G", "proc3.pid": 4_000_001, "proc3.kind": "G",
        },
        A100,
    )  # fmt: skip
    busy, free = devices(library, control)
    assert free["processes"] == []
    first, second, third = busy["processes"]
    assert (first["pid"], first["kind"], first["memory_bytes"]) == (sleeper.pid, "compute and graphics", 3 << 30)
    assert (second["pid"], second["kind"], second["memory_bytes"]) == (4_000_000, "compute", 512 << 20)
    assert (third["pid"], third["kind"]) == (4_000_001, "graphics")
    assert third["reasons"]["memory_bytes"] == "the driver does not report it for this process"
    assert "memory_bytes" not in third
    if ProcessTable().in_container:
        assert first["reasons"] == dict.fromkeys(("name", "command", "user"), IN_A_CONTAINER)
    else:
        assert (first["name"], first["command"], first["user"]) == ("sleep", "sleep 300", getpass.getuser())
        assert second["reasons"] == dict.fromkeys(("name", "command", "user"), "it has ended, or this user may not see it")


@needs_compiler
def test_the_table_has_a_line_for_each_and_says_when_there_is_none(
    library: Path, control: ControlFile, sleeper: subprocess.Popen[bytes]
) -> None:
    control.devices(H100 | {"proc0.pid": sleeper.pid, "proc0.memory": 3 << 30}, A100)
    told = [line.rstrip() for line in watch(library, control).stdout.splitlines()]
    (line,) = (line for line in told if str(sleeper.pid) in line)
    assert line.split()[:4] == ["0", str(sleeper.pid), "3.0", "GiB"]
    if not ProcessTable().in_container:
        assert line.endswith("sleep 300")
        assert any(line.startswith("1") and line.endswith("nobody uses it") for line in told)


@needs_compiler
def test_slices_tell_whose_process_it_is(library: Path, control: ControlFile) -> None:
    part = {
        "mig0.name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "mig0.uuid": "MIG-1",
        "mig0.gi": 7,
        "mig0.ci": 0,
        "mig0.total": 9 << 30,
    }
    control.devices(
        H100 | {"mig": 1, "mig_slots": 7, "proc0.pid": 4_000_000, "proc0.memory": 1, "proc0.gi": 7, "proc0.ci": 0} | part
    )
    (one,) = devices(library, control)[0]["processes"]
    assert (one["gpu_instance"], one["compute_instance"]) == (7, 0)


@needs_compiler
@pytest.mark.parametrize(
    ("fault", "reason"),
    [(4, "not permitted for this user or container"), (3, "not supported by this GPU"), (13, "not in this driver version")],
)
def test_a_driver_that_does_not_list_them_says_why(library: Path, control: ControlFile, fault: int, reason: str) -> None:
    control.devices(H100 | {"fail.nvmlDeviceGetComputeRunningProcesses_v3": fault})
    (gpu,) = devices(library, control)
    assert "processes" not in gpu
    assert gpu["reasons"]["processes"] == reason
    assert reason in watch(library, control).stdout


@pytest.mark.process
@needs_compiler
def test_the_few_drivers_with_longer_records_are_asked_the_older_way(
    tmp_path_factory: pytest.TempPathFactory, control: ControlFile
) -> None:
    library = build(tmp_path_factory.mktemp("older"), "LEGACY_PROCESSES")
    control.devices(
        H100
        | {
            f"proc{number}.{key}": value
            for number in range(3)
            for key, value in (("pid", 4_000_000 + number), ("memory", 10 - number))
        }
    )
    assert [(one["pid"], one["memory_bytes"]) for one in devices(library, control)[0]["processes"]] == [
        (4_000_000, 10), (4_000_001, 9), (4_000_002, 8),
    ]  # fmt: skip


@needs_compiler
def test_recordings_keep_nobody_s_processes_and_other_sources_have_none(
    library: Path, control: ControlFile, tmp_path: Path
) -> None:
    control.devices(H100 | {"proc0.pid": 4_000_000, "proc0.memory": 1})
    recording = tmp_path / "run.jsonl"
    assert "processes" in devices(library, control, "--record", str(recording))[0]
    assert "processes" not in json.loads(recording.read_text())["devices"][0]
    refused = watch(library, control, "--demo")
    assert refused.returncode == 2
    assert "only this machine's driver lists the processes of a GPU; leave --demo out" in refused.stderr


def fake_proc(root: Path, namespace: str = HOST_PID_NAMESPACE) -> Path:
    (root / "self" / "ns").mkdir(parents=True)
    (root / "self" / "ns" / "pid").symlink_to(namespace)
    for pid, name, command in ((12, "python3", b"python3\0train.py\0--lr\0" + b"1e-3\0"), (13, "nvidia-modeset", b"")):
        (root / str(pid)).mkdir()
        (root / str(pid) / "comm").write_text(f"{name}\n")
        (root / str(pid) / "cmdline").write_bytes(command)
    return root


def of(pid: int) -> ProcessSnapshot:
    return ProcessSnapshot(pid=pid, kind="compute", memory_bytes=1.0)


def test_names_are_those_of_the_system(tmp_path: Path) -> None:
    table = ProcessTable(fake_proc(tmp_path))
    assert not table.in_container
    found = table.describe(of(12))
    assert (found.name, found.command, found.user) == ("python3", "python3 train.py --lr 1e-3", getpass.getuser())
    assert table.describe(of(13)).command == "[nvidia-modeset]"
    assert table.describe(of(14)).reasons == dict.fromkeys(("name", "command", "user"), "it has ended, or this user may not see it")


def test_in_a_container_a_number_is_nobody_s_name(tmp_path: Path) -> None:
    table = ProcessTable(fake_proc(tmp_path, "pid:[4026532198]"))
    assert table.in_container
    found = table.describe(of(12))  # a process of the container has this number too, and is another one
    assert (found.name, found.command, found.user) == (None, None, None)
    assert found.reasons["name"] == IN_A_CONTAINER
    assert ProcessTable(tmp_path / "absent").describe(of(12)).reasons["user"] == "this system has no /proc"


def test_a_container_that_sees_none_does_not_say_that_there_is_none(tmp_path: Path) -> None:
    from planner.observe.driver.processes import processes_of

    assert processes_of(lambda _: [], ProcessTable(fake_proc(tmp_path / "in", "pid:[4026532198]"))) is None
    assert processes_of(lambda _: [], ProcessTable(fake_proc(tmp_path / "out"))) == ()


def test_what_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ProcessTable(fake_proc(tmp_path))

    def forbidden(_: Path) -> bytes:
        raise PermissionError

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    found = table.describe(of(12))
    assert (found.command, found.name) == (None, "python3")
    assert found.reasons == {"command": "not permitted for this user"}
    assert os.fspath(tmp_path) not in repr(found)
