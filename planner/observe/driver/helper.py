"""The process that talks to NVIDIA's driver in this program's place: it answers one `Question` a line until its input ends.

An empty line is a sign of life between two GPUs. Where a call lasts too long the kernel's timer ends the process, even when the program
that asked is gone.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import msgspec

from planner.observe.driver.cuda_order import cuda_ordinals
from planner.observe.driver.device import NvmlDevice
from planner.observe.driver.messages import GpuFacts, Question, Reply
from planner.observe.driver.nvml import NVML_DETAILS, NvmlError, describe_failure
from planner.observe.driver.processes import ProcessTable
from planner.observe.driver.session import DriverSession
from planner.observe.snapshot import DeviceSnapshot


def main(limit_s: float) -> None:
    """Open the driver, tell how that went, then answer questions; ended by SIGALRM `limit_s` after the last sign of life."""

    def tell(line: bytes = b"") -> None:
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    tell()
    try:
        with DriverSession.open() as session:
            table = ProcessTable()
            tell(msgspec.json.encode(Reply("ready", NVML_DETAILS["ready"])))
            signal.setitimer(signal.ITIMER_REAL, 0)
            for line in sys.stdin.buffer:
                question = msgspec.json.decode(line, type=Question)
                tell()
                reply = _facts(session, tell) if question.facts else _reading(session, question, table, tell)
                tell(msgspec.json.encode(reply))
                signal.setitimer(signal.ITIMER_REAL, 0)
            tell()
    except NvmlError as error:
        tell(msgspec.json.encode(Reply(error.open_state, describe_failure(error))))
    except OSError:
        return  # nobody reads the answer any more


def _ordinals(session: DriverSession) -> dict[str, int]:
    known = [(device.identity.uuid, device.identity.name) for device in session.devices if device.identity is not None]
    return cuda_ordinals(known, os.environ)


def _reading(session: DriverSession, question: Question, table: ProcessTable, alive: Callable[[], None]) -> Reply:
    """Every GPU as it is now."""

    def snapshot(device: NvmlDevice) -> DeviceSnapshot:
        if question.processes != "as before":
            device.read_processes(table if question.processes == "list" else None)
        taken = device.snapshot(slow=question.slow, cuda_ordinal=ordinals.get(device.identity.uuid) if device.identity else None)
        alive()
        return taken

    ordinals = _ordinals(session)
    return Reply("ready", NVML_DETAILS["ready"], devices=tuple(snapshot(device) for device in session.devices))


def _facts(session: DriverSession, alive: Callable[[], None]) -> Reply:
    """Every GPU that answers, and the versions of the driver."""

    def facts(device: NvmlDevice) -> GpuFacts | None:
        identity = device.identity
        alive()
        if identity is None:
            return None
        return GpuFacts(
            uuid=identity.uuid,
            index=device.index,
            nvml_name=identity.name,
            memory_total_bytes=identity.memory_total_bytes,
            compute_capability=identity.compute_capability,
            pci_bus_id=identity.pci_bus_id,
            cuda_ordinal=ordinals.get(identity.uuid),
            mig_profiles=device.mig_profiles(),
            power_limit_w=device.power_limit_w(),
            gpm_state=device.probe_gpm(),
        )

    ordinals = _ordinals(session)
    found = tuple(one for one in map(facts, session.devices) if one is not None)
    return Reply(
        "ready", NVML_DETAILS["ready"], facts=found, driver_version=session.driver_version, cuda_version=session.cuda_version
    )
