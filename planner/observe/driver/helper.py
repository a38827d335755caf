"""Process that calls NVIDIA's or AMD's driver for this program: it answers one `Question` per line until its input ends.

An empty line between two GPUs is a sign of life. If a call takes too long, the kernel's timer ends the process, even if the program
that started it is gone.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

import msgspec

from planner.observe.driver.amd import AmdDevice, AmdSession
from planner.observe.driver.device import NvmlDevice
from planner.observe.driver.messages import GpuFacts, Question, Reply
from planner.observe.driver.nvml import NVML_DETAILS, Nvml, NvmlError, describe_failure, library_installed
from planner.observe.driver.processes import ProcessTable
from planner.observe.snapshot import DeviceSnapshot


def cuda_ordinals(devices: Sequence[tuple[str, str]], environment: Mapping[str, str]) -> dict[str, int]:
    """UUID -> N of 'cuda:N'; a GPU that is hidden, or whose number is not known, is absent.

    `devices` are (UUID, name) in NVML's order. As in CUDA, the list of CUDA_VISIBLE_DEVICES ends at its first invalid entry.
    """
    in_pci_order = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({name for _, name in devices}) <= 1
    uuids = [uuid for uuid, _ in devices]
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return {uuid: number for number, uuid in enumerate(uuids)} if in_pci_order else {}
    ordinals: dict[str, int] = {}
    number = 0
    for entry in (part.strip() for part in visible.split(",")):
        if entry.startswith("MIG-"):
            number += 1  # a slice has a number, but is not a whole GPU
            continue
        if entry.isdigit():
            if int(entry) >= len(uuids):
                break
            uuid = uuids[int(entry)] if in_pci_order else None
        else:
            matches = [candidate for candidate in uuids if entry and candidate.casefold().startswith(entry.casefold())]
            if len(matches) != 1:
                break
            uuid = matches[0]
        if uuid is not None:
            if uuid in ordinals:
                return {}  # CUDA refuses a list that names a GPU twice
            ordinals[uuid] = number
        number += 1
    return ordinals


class DriverSession(Nvml):
    """NVML and its GPUs; a context manager. Made by `DriverSession.open()`."""

    ready = NVML_DETAILS["ready"]
    _devices: tuple[NvmlDevice, ...] | None = None

    @property
    def devices(self) -> tuple[NvmlDevice, ...]:
        """All GPUs that the driver counts, in PCI order; one that does not answer is included with its state."""
        if self._devices is None:
            self._devices = tuple(NvmlDevice(self, index) for index in range(self.device_count))
        return self._devices

    def close(self) -> None:
        """Free the GPUs' buffers and end the session; closing twice is harmless."""
        for device in self._devices or ():
            device.close()
        super().close()


Session = DriverSession | AmdSession


def main(limit_s: float) -> None:
    """Open the driver, report the outcome, then answer questions; SIGALRM ends it `limit_s` after the last heartbeat."""

    def send(line: bytes = b"") -> None:
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    send()
    try:
        with (DriverSession if library_installed() else AmdSession).open() as session:
            table = ProcessTable()
            send(msgspec.json.encode(Reply("ready", session.ready)))
            signal.setitimer(signal.ITIMER_REAL, 0)
            for line in sys.stdin.buffer:
                question = msgspec.json.decode(line, type=Question)
                send()
                reply = _facts(session, send) if question.facts else _reading(session, question, table, send)
                send(msgspec.json.encode(reply))
                signal.setitimer(signal.ITIMER_REAL, 0)
            send()
    except NvmlError as error:
        send(msgspec.json.encode(Reply(error.open_state, describe_failure(error))))
    except OSError:
        return  # the reader has ended


def _ordinals(session: Session) -> dict[str, int]:
    if isinstance(session, AmdSession):
        return {}  # HIP has its own order
    known = [(device.identity.uuid, device.identity.nvml_name) for device in session.devices if device.identity is not None]
    return cuda_ordinals(known, os.environ)


def _reading(session: Session, question: Question, table: ProcessTable, alive: Callable[[], None]) -> Reply:
    """Current state of every GPU."""

    def snapshot(device: NvmlDevice | AmdDevice) -> DeviceSnapshot:
        if question.processes != "as before":
            device.read_processes(table if question.processes == "list" else None)
        taken = device.snapshot(slow=question.slow, cuda_ordinal=ordinals.get(device.identity.uuid) if device.identity else None)
        alive()
        return taken

    ordinals = _ordinals(session)
    return Reply("ready", session.ready, devices=tuple(snapshot(device) for device in session.devices))


def _facts(session: Session, alive: Callable[[], None]) -> Reply:
    """Facts of every GPU that answers, and versions of the driver."""

    def facts(device: NvmlDevice | AmdDevice) -> GpuFacts | None:
        identity = device.identity
        alive()
        if identity is None:
            return None
        return msgspec.structs.replace(
            identity,
            cuda_ordinal=ordinals.get(identity.uuid),
            mig_profiles=device.mig_profiles(),
            power_limit_w=device.power_limit_w(),
            gpm_state=device.probe_gpm(),
        )

    ordinals = _ordinals(session)
    found = tuple(one for one in map(facts, session.devices) if one is not None)
    return Reply("ready", session.ready, facts=found, driver_version=session.driver_version, cuda_version=session.cuda_version)
