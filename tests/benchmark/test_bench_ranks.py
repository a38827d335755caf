"""Ranks of a collective: how they start, what they say, and what a call of theirs takes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from bench_sample import H100, a_point, bench_here  # noqa: E402  # it imports torch

from bench import protocol  # noqa: E402  # as above
from bench.kinds import collective  # noqa: E402  # as above
from bench.points import UnsupportedError  # noqa: E402  # as above

BENCH = Path(protocol.__file__).parent


@pytest.mark.measuring
@pytest.mark.process
def test_ranks_that_cannot_start_say_why() -> None:
    here = dataclasses.replace(bench_here(), device=dataclasses.replace(H100, torch_name="cuda:0"))
    with pytest.raises(UnsupportedError, match=r"refuses it here: \S+"):
        collective.measure_collective(here, a_point("collective", 20.0), "all_reduce", 2, (4096,))


@pytest.mark.measuring
@pytest.mark.process
def test_ranks_that_say_much_are_not_held_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """NCCL_DEBUG=INFO prints as much: a pipe holds 64 KiB."""
    loud = tmp_path / "python"
    loud.write_text(f'#!/bin/sh\nhead -c 300000 /dev/zero | tr "\\0" x >&2\nexec {sys.executable} "$@"\n')
    loud.chmod(0o700)
    monkeypatch.setattr(collective, "sys", SimpleNamespace(executable=str(loud)))
    monkeypatch.setattr(collective, "JOIN_S", 90.0)
    found = collective.measure_collective(bench_here(), a_point("collective", 5.0), "alltoall", 2, (4096, 65536))
    assert found.value is not None
    assert found.parameters["op"] == "alltoall"


class HostBound:
    """A device that takes 8 µs for a call which its host launches in 20, and a graph of calls in 5."""

    def __init__(self) -> None:
        self.host_s = self.device_s = 0.0
        self.calls = 0
        self.recorded: list[Callable[[], None]] | None = None
        stream = SimpleNamespace(wait_stream=lambda _: None)
        self.cuda = SimpleNamespace(
            Stream=lambda: stream,
            current_stream=lambda: stream,
            stream=lambda _: contextlib.nullcontext(),
            synchronize=lambda: None,
            CUDAGraph=lambda: SimpleNamespace(replay=self.replay),
            graph=self.graph,
            Event=lambda **_: _Moment(self),
        )

    @contextlib.contextmanager
    def graph(self, _: object, *, capture_error_mode: str) -> Iterator[None]:
        assert capture_error_mode == "thread_local"
        recorded: list[Callable[[], None]] = []
        self.recorded = recorded
        yield
        self.calls, self.recorded = len(recorded), None

    def call(self) -> None:
        if self.recorded is not None:
            self.recorded.append(self.call)
            return
        self.host_s += 20e-6
        self.device_s = max(self.device_s, self.host_s) + 8e-6

    def replay(self) -> None:
        self.host_s += 5e-6
        self.device_s = max(self.device_s, self.host_s) + self.calls * 8e-6


class _Moment:
    def __init__(self, device: HostBound) -> None:
        self.device, self.at_s = device, 0.0

    def record(self) -> None:
        self.at_s = max(self.device.device_s, self.device.host_s)

    def elapsed_time(self, end: _Moment) -> float:
        return 1e3 * (end.at_s - self.at_s)


def test_a_small_message_takes_the_time_of_its_links_not_of_its_host() -> None:
    from bench.kinds import ranks

    device = HostBound()
    queue, calls = ranks._queue(device, device.call, 32768)
    assert ranks._queued_s(device, queue) / calls == pytest.approx(8e-6, rel=0.05)
    queue, calls = ranks._queue(device, device.call, ranks.GRAPHED_BYTES + 1)
    assert ranks._queued_s(device, queue) / calls > 1.3 * 8e-6  # without a graph it waits for its host; a large message would not


@pytest.mark.measuring
@pytest.mark.process
def test_torchrun_can_start_the_ranks(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(BENCH)]
    done = subprocess.run(
        [*command, "ranks", "--op", "all_reduce", "--device", "cpu", "--sizes", "4096"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert json.loads(line)["ranks"] == 2
