"""The measuring process, which runs the points of a suite in order and reports every step.

Output of libraries cannot get into the messages, because standard output is redirected to standard error before torch is
loaded. The run continues after its terminal is closed, up to the time limit of its suite.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bench import protocol
from bench.channel import Channel
from bench.run import FAILED, Run
from bench.run import options as parse

if TYPE_CHECKING:
    from bench.jobs import Job
    from bench.machine.environment import Device
    from bench.points import Bench
    from bench.rounds import Rounds
    from bench.suite import SuiteOptions

IDLE_S = 1.0
"""Idle time after which a busy GPU works for others: the period over which a driver reports utilisation."""
KEPT_BYTES = 256 * 2**20
"""Maximum memory that may stay allocated after a failed point; with more, later points would lack memory."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite that the command line names; returns the exit status."""
    options = parse(arguments)
    descriptor = options.fd if options.fd is not None else os.dup(1)
    os.set_inheritable(descriptor, False)
    os.dup2(2, 1)
    channel = Channel(descriptor, options.journal)
    run = Run(channel, options.wall_cap_s or float("inf"), options.die_with_ui, options.elapsed_s)
    run.end_by_kernel()
    signal.signal(signal.SIGTERM, run.on_signal)
    signal.signal(signal.SIGINT, run.on_signal)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=run.beat, name="heartbeat", daemon=True).start()
    if not os.isatty(0):
        threading.Thread(target=run.listen, name="orders", daemon=True).start()
    failure = _measure(run, options)
    if failure is not None:
        channel.send(failure)
    channel.send(protocol.Bye(reason="failed" if failure is not None else run.reason or "finished"))
    return 0 if failure is None else FAILED


def _measure(run: Run, options: argparse.Namespace) -> protocol.Error | None:
    """Run all points; returns the error that ended the run early, if any."""
    suite_name: str = options.suite
    try:
        import torch
    except ImportError as missing:
        return protocol.Error(name="NoTorch", message=f"this interpreter cannot load torch: {missing}")
    from bench import suite
    from bench.kinds import overheads
    from bench.machine import environment, nvml
    from bench.rounds import Rounds, best_rates, last_results, remaining_jobs, smallest_bytes

    resident_bytes, in_use = overheads.resident_bytes(), nvml.memory_in_use()
    if suite_name not in protocol.SUITES:
        return protocol.Error(name="NoSuite", message=f"there is no suite '{suite_name}': use {' or '.join(protocol.SUITES)}")
    if options.wall_cap_s is None:
        run.wall_cap_s = suite.WALL_CAP_S[suite_name]
        run.end_by_kernel()
    try:
        device = environment.find_device(options.device)
    except environment.NoDeviceError as missing:
        return protocol.Error(name="NoDevice", message=str(missing))
    if device.is_cpu:
        device = environment.within_quota(device)
    hello = _hello(device)
    run.channel.send(hello)
    torch.manual_seed(0)
    planned = suite.jobs(suite_name, device, _suite_options(options, device))
    if suite_name == "collectives" and not planned:
        return protocol.Error(name="NoPeers", message="a collective needs two GPUs, or two processes of a CPU")
    jobs = remaining_jobs(planned, options.done, options.never)
    before = last_results(options.journal) if options.done else {}
    soak_s = 0.0 if device.is_cpu else suite.SOAK_S[suite_name]
    points = {job.point.id: replace(job.point, grace_s=job.point.grace_s + soak_s) for job in jobs}
    run.channel.send(protocol.Plan(suite=suite_name, points=tuple(points.values())))
    same = options.skip_if in {None, protocol.fingerprint(hello.machine, hello.software)}
    try:
        bench = _bench(run, device, resident_bytes, in_use)
    except RuntimeError as refused:
        return protocol.Error(name="NoDevice", message=f"{device.name} cannot be used: {(str(refused).splitlines() or [''])[0]}")
    bench.best_flop_per_s |= best_rates(before)
    rounds = Rounds((job.point.id for job in jobs), before, device.quantile)
    too_large_bytes = smallest_bytes(planned, options.too_large)
    try:
        broken = _measure_points(run, jobs, bench, frozenset(options.skip if same else ()), soak_s, rounds, too_large_bytes)
        for result in rounds.unfinished() if broken is None else ():  # points whose rounds were cut short keep the rounds they had
            run.channel.send(result)
        return broken
    finally:
        if bench.group is not None:
            bench.group.end()
        if bench.meter is not None:
            bench.meter.close()


def _hello(device: Device) -> protocol.Hello:
    """First message: the device and its conditions."""
    from bench.machine import environment

    return protocol.Hello(
        schema=protocol.SCHEMA,
        method=protocol.METHOD,
        pid=os.getpid(),
        device=device.torch_name,
        device_name=device.name,
        machine=environment.machine_parts(device),
        software=environment.software_parts(device),
        environment=environment.describe(device),
    )


def _suite_options(options: argparse.Namespace, device: Device) -> SuiteOptions:
    """Points to measure in addition to the suite's own, from the command line."""
    from bench import study
    from bench.kinds import ranks
    from bench.machine import environment
    from bench.suite import SuiteOptions

    return SuiteOptions(
        study=study.StudyOptions(axis=options.axis, depth_law=options.depth_law, vocabulary=options.vocabulary),
        shapes=tuple(options.shapes),
        ranks=options.ranks or environment.local_ranks(device),
        world=ranks.World.around(os.environ),
    )


def _bench(run: Run, device: Device, resident_bytes: float | None, in_use: dict[str, float]) -> Bench:
    """The measured device, with its own telemetry if available."""
    from bench.machine import environment, nvml
    from bench.points import Bench, timer_for

    if not device.is_cpu:
        from bench.machine import cuda

        cuda.refuse_foreign_kernels(device.torch_name)
        cuda.never_spill(device.torch_name)
    bench = Bench(device, timer_for(device), run.stopping, lambda _fraction, _note: None, resident_bytes=resident_bytes)
    uuid = environment.uuid_of(device)
    if uuid is not None:
        bench.meter, bench.used_before_bytes = nvml.Meter.open(uuid), in_use.get(uuid)
        bench.crowded = _crowded(bench)
    return bench


def _crowded(bench: Bench) -> str:
    """Reason why present figures are shared; empty if no other program works on the GPU."""
    from bench.machine import nvml

    busy = bench.meter.busy_percent() if bench.meter is not None else None
    return f"another program keeps the GPU busy {busy} % of the time" if busy is not None and busy > nvml.BUSY_PERCENT else ""


def _measure_points(
    run: Run, jobs: Sequence[Job], bench: Bench, skipped: frozenset[str], soak_s: float, rounds: Rounds, too_large_bytes: float
) -> protocol.Error | None:
    """Measure every point in order until one breaks the device; points of `too_large_bytes` and more are skipped."""
    later_s = soak_s + sum(job.point.expected_s for job in jobs)
    soaked = False
    skipped_before: set[str] = set()
    for job in jobs:
        point = job.point
        later_s -= point.expected_s
        if run.stopping():
            return None
        reason = "measured before" if point.id in skipped else ""
        if job.needs_bytes >= too_large_bytes:
            reason = "needs more memory than a point that ran out of it"
        if reason or point.id in skipped_before or rounds.gave_nothing(point.id):
            if reason and point.id not in skipped_before:
                run.channel.send(protocol.Skip(point=point.id, reason=reason))
            skipped_before.add(point.id)
            continue
        run.channel.send(protocol.Start(point=point.id))
        if not soaked:
            soaked = True
            later_s -= soak_s
            try:
                _soak(run, bench.device, point, soak_s, later_s + point.expected_s)
            except RuntimeError as refused:
                text = (str(refused).splitlines() or [""])[0]
                return protocol.Error(name="NoDevice", message=f"{bench.device.name} cannot be used: {text}", point=point.id)

        def report(fraction: float, note: str, point: protocol.Point = point, later_s: float = later_s) -> None:
            run.progress(point, fraction, later_s + point.expected_s * (1 - fraction), note)

        bench.progress = report
        if bench.crowded:
            time.sleep(IDLE_S)
            bench.crowded = _crowded(bench)
        status = _measure_point(run, job, bench, rounds)
        if isinstance(status, protocol.Error):
            return status
        if status == "skipped":
            skipped_before.add(point.id)
        if status == "oom" and job.needs_bytes:
            too_large_bytes = min(too_large_bytes, job.needs_bytes)
    return None


def _soak(run: Run, device: Device, point: protocol.Point, soak_s: float, later_s: float) -> None:
    """Bring a GPU to its steady clock; a CPU's governor reacts within the warm-up of a point."""
    if soak_s <= 0:
        return
    from bench.machine import cuda

    cuda.soak(
        device.torch_name,
        soak_s,
        run.stopping,
        lambda share: run.progress(point, 0.0, later_s + soak_s * (1 - share), "warming up"),
    )


def _measure_point(run: Run, job: Job, bench: Bench, rounds: Rounds) -> protocol.Error | str:
    """Measure one point and send its result; returns its status, or an error if the process cannot continue."""
    from bench.points import TooSlowError, UnsupportedError
    from bench.timing import Stopped

    point = job.point
    status = "skipped"
    held_bytes = _allocated(bench)
    try:
        result = job.run(bench)
        status = result.status
        run.channel.send(rounds.add(result))
    except Stopped:
        run.channel.send(protocol.Skip(point=point.id, reason="stopped"))
    except TooSlowError as slow:
        run.channel.send(protocol.Skip(point=point.id, reason=str(slow)))
    except UnsupportedError as refused:
        status = "unsupported"
        run.channel.send(rounds.add(protocol.plain_result(point, None, "", {}, status, str(refused))))
    except Exception as failure:  # noqa: BLE001  # an error of torch is the result of this point; others are still measured
        text = f"{type(failure).__name__}: {(str(failure).splitlines() or [''])[0]}"
        memory = isinstance(failure, MemoryError) or any(mark in str(failure).lower() for mark in protocol.OUT_OF_MEMORY)
        status = "oom" if memory else "error"
        run.channel.send(rounds.add(protocol.plain_result(point, None, "", {}, status, text)))
        if not memory and protocol.breaks_device(str(failure)):
            return protocol.Error(name=type(failure).__name__, message=text, retryable=True, point=point.id)
    return _release(bench, point, failed=status in {"oom", "error", "unsupported"}, held_bytes=held_bytes) or status


def _allocated(bench: Bench) -> float:
    """Bytes of the GPU's memory that tensors of this process hold; 0 for a CPU."""
    if bench.device.is_cpu:
        return 0.0
    from bench.machine import cuda

    return cuda.allocated_bytes(bench.device.torch_name)


def _release(bench: Bench, point: protocol.Point, *, failed: bool, held_bytes: float) -> protocol.Error | None:
    """Release the point's memory; returns an error if the device is broken or the memory stays allocated."""
    if failed:
        gc.collect()
    if bench.device.is_cpu:
        return None
    from bench.machine import cuda

    trouble = cuda.trouble(bench.device.torch_name) if failed else ""
    if trouble:
        return protocol.Error(
            name="BrokenContext", message=f"the GPU answers with errors after {point.label}: {trouble}", retryable=True
        )
    cuda.release(bench.device.torch_name)
    kept_bytes = _allocated(bench) - held_bytes
    if failed and kept_bytes > KEPT_BYTES:
        kept = f"{kept_bytes / 2**20:,.0f} MiB stay allocated after {point.label}"
        return protocol.Error(name="MemoryKept", message=kept, retryable=True)
    return None
