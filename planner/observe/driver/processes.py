"""Processes on a GPU: the driver's list, completed with the operating system's data.

The driver uses the host's process numbers. In a container these belong to other processes or none, so nothing is looked up there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from planner.observe.snapshot import ListedKind, ProcessKind, ProcessSnapshot

HOST_PID_NAMESPACE = "pid:[4026531836]"
"""Target of /proc/self/ns/pid on the host: PROC_PID_INIT_INO, 0xEFFFFFFC, of include/linux/proc_ns.h."""
IN_A_CONTAINER = "in a container the driver's process numbers are the host's"
NONE_VISIBLE = "a container does not see the processes of its host"
LONGEST_COMMAND = 1000
"""Maximum characters of a command line that are stored."""
NO_INSTANCE = 0xFFFFFFFF
"""Instance of a process on a GPU that is not sliced."""

Ask = Callable[[ListedKind], list[Any] | None]
"""Kind of process -> the driver's records, None if it returns none."""


class ProcessTable:
    """Description of processes of this system from its /proc."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root
        self._blind = self._why_blind()

    def _why_blind(self) -> str:
        try:
            namespace = (self._root / "self" / "ns" / "pid").readlink().name
        except OSError:
            return "this system has no /proc"
        return "" if namespace == HOST_PID_NAMESPACE else IN_A_CONTAINER

    @property
    def in_container(self) -> bool:
        """True if the driver's process numbers are not this system's."""
        return self._blind == IN_A_CONTAINER

    def describe(self, process: ProcessSnapshot) -> ProcessSnapshot:
        """The process with its name, command and user, or the reason why one of them is not known."""
        if self._blind:
            return msgspec.structs.replace(
                process, reasons=process.reasons | dict.fromkeys(("name", "command", "user"), self._blind)
            )
        folder = self._root / str(process.pid)
        found: dict[str, str] = {}
        reasons = dict(process.reasons)
        for field, read in (("name", _name), ("command", _command), ("user", _user)):
            try:
                found[field] = read(folder)
            except PermissionError:
                reasons[field] = "not permitted for this user"
            except OSError:
                reasons[field] = "it has ended, or this user may not see it"
        return msgspec.structs.replace(process, **found, reasons=reasons)


def _name(folder: Path) -> str:
    return (folder / "comm").read_text(errors="replace").strip()


def _command(folder: Path) -> str:
    """Command line; for a process without one its name, as ps shows it."""
    words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    text = " ".join(word.decode(errors="replace") for word in words)
    return text[:LONGEST_COMMAND] or f"[{_name(folder)}]"


def _user(folder: Path) -> str:
    import pwd

    number = folder.stat().st_uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def processes_of(ask: Ask, table: ProcessTable) -> tuple[ProcessSnapshot, ...] | None:
    """Processes on a GPU, the largest memory first; None if the driver does not list them, or a container hides them."""
    computing = ask("compute")
    if computing is None:
        return None
    found: dict[tuple[int, int | None], ProcessSnapshot] = {}
    lists: tuple[tuple[ProcessKind, list[Any]], ...] = (("compute", computing), ("graphics", ask("graphics") or []))
    for kind, records in lists:
        for record in records:
            process = _process(record, kind)
            key = process.pid, process.gpu_instance
            if key in found:
                process = msgspec.structs.replace(found[key], kind="compute and graphics")
            found[key] = process
    if not found and table.in_container:
        return None
    by_memory = sorted(found.values(), key=lambda one: (-(one.memory_bytes or 0.0), one.pid))
    return tuple(table.describe(process) for process in by_memory)


def _process(record: Any, kind: ProcessKind) -> ProcessSnapshot:
    memory = record.usedGpuMemory
    reasons: Mapping[str, str] = {} if memory is not None else {"memory_bytes": "the driver does not report it for this process"}
    return ProcessSnapshot(
        pid=int(record.pid),
        kind=kind,
        memory_bytes=None if memory is None else float(memory),
        gpu_instance=_instance(record, "gpuInstanceId"),
        compute_instance=_instance(record, "computeInstanceId"),
        reasons=dict(reasons),
    )


def _instance(record: Any, name: str) -> int | None:
    value = getattr(record, name, None)
    return None if value is None or value == NO_INSTANCE else int(value)
