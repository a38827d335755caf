"""A measurement: its value in a line, its state, and everything known of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from planner.units import UNKNOWN, bytes_text, digits, percent_text, si_text

if TYPE_CHECKING:
    from planner.hardware.measurements.fleet import Outlier
    from planner.hardware.measurements.measurement import Measurement, Run


def value_text(one: Measurement) -> str:
    """Its value with its unit."""
    if one.kind == "memory":
        return bytes_text(one.value)
    if one.kind == "decode" and one.value is not None:
        return f"{digits(one.value)} token/s"
    return si_text(one.value, one.unit)


def state_of(one: Measurement) -> str:
    """Its status, or 'quarantined'."""
    return "quarantined" if one.quarantine else one.status


def note_of(one: Measurement) -> str:
    """Reason for its quarantine, or the detail of its status."""
    return one.quarantine or one.detail


def outlier_texts(outliers: Iterable[Outlier], runs: Iterable[Run]) -> Iterator[str]:
    """'node 41: 0.72 of its peers in arithmetic (H100 SXM5 80GB, 64 boards); left out', by the file a board was imported from."""
    names = {run.id: str(run.environment["imported_from"]) for run in runs if run.environment.get("imported_from")}
    for one in outliers:
        name = next((names[run] for run in sorted(one.runs) if run in names), f"board {one.board}")
        yield f"{name}: {one.ratio:.2f} of its peers in {one.group} ({one.device}, {one.boards} boards); left out"


def measurement_facts(one: Measurement) -> dict[str, str]:
    """Everything that was kept of it; what is not known is empty."""
    low_high = f"{si_text(one.low, one.unit)} … {si_text(one.high, one.unit)}" if one.low and one.high else ""
    return {
        "device": one.device,
        "value": value_text(one) if one.value is not None else UNKNOWN,
        "95 % interval": low_high if one.kind != "memory" else "",
        "spread": f"{percent_text(one.spread)} between the quartiles" if one.spread is not None else "",
        "samples": f"{one.samples} in {one.rounds} rounds" if one.rounds > 1 else str(one.samples or ""),
        "status": " ".join(filter(None, (one.status, one.detail))),
        "quarantine": one.quarantine,
        "origin": one.origin,
        "suite": one.suite,
        "run": one.run,
        "taken": one.taken_at,
        "fingerprint": one.fingerprint,
        "peak memory": bytes_text(one.peak_memory_bytes) if one.peak_memory_bytes else "",
        **{name: str(value) for name, value in one.parameters.items()},
        **{name: str(value) for name, value in one.telemetry.items()},
    }


def environment_facts(facts: dict[str, Any], *, whole: bool) -> dict[str, str]:
    """The machine and software of its run; nothing unless `whole`."""
    return {f"env {name}": str(value) for name, value in facts.items() if value not in (None, [], {})} if whole else {}
