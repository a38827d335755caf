"""Measurements as text: value and state of each, their effect on plans, and the findings of a proving run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from planner.present.cells import Paragraph, Section, text_table
from planner.units import UNKNOWN, bytes_text, digits, percent_text, quantity_text, si_text

if TYPE_CHECKING:
    from planner.engine.estimate.calibration_check import CalibrationCheck
    from planner.engine.estimate.proof import Proof
    from planner.hardware.measurements.measurement import Measurement, Run
    from planner.hardware.measurements.newest import Outlier
    from planner.session.before_after import MeasuringEffect


def value_text(one: Measurement) -> str:
    """Value of a measurement with its unit."""
    if one.kind == "memory":
        return bytes_text(one.value)
    if one.kind == "decode" and one.value is not None:
        return f"{digits(one.value)} token/s"
    return si_text(one.value, one.unit)


def state_of(one: Measurement) -> str:
    """Status of a measurement, or 'quarantined'."""
    return "quarantined" if one.quarantine else one.status


def note_of(one: Measurement) -> str:
    """Reason for the quarantine of a measurement, or the detail of its status."""
    return one.quarantine or one.detail


def outlier_texts(outliers: Iterable[Outlier], runs: Iterable[Run]) -> Iterator[str]:
    """A line for each outlier, named by its file: 'node 41: 0.72 of its peers in arithmetic (H100 SXM5 80GB, 64 boards); left out'."""
    names = {run.id: str(run.environment["imported_from"]) for run in runs if run.environment.get("imported_from")}
    for one in outliers:
        name = next((names[run] for run in sorted(one.runs) if run in names), f"board {one.board}")
        yield f"{name}: {one.ratio:.2f} of its peers in {one.group} ({one.device}, {one.boards} boards); left out"


def measurement_facts(one: Measurement) -> dict[str, str]:
    """All fields of a measurement; unknown ones are empty."""
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
    """Machine and software of a run; empty unless `whole`."""
    return {f"env {name}": str(value) for name, value in facts.items() if value not in (None, [], {})} if whole else {}


def change_sections(change: MeasuringEffect) -> Iterator[Section]:
    """Plans before and after measuring, then the check of the ceilings."""
    rows = []
    for plan in change.plans:
        moved = f"{plan.after / plan.before - 1:+.0%}" if plan.before and plan.after else ""
        rows.append((plan.workload, digits(plan.before or None), digits(plan.after or None), moved))
    heads = ("workload on one device", "published tok/s", "measured tok/s", "change")
    known = any(plan.after for plan in change.plans)
    nothing = Paragraph("No compared plan has a known speed on this device.")
    yield Section(f"What measuring {change.gpu} changed", [text_table(heads, rows, numeric=heads[1:]) if known else nothing])
    yield check_section(change.check)


def check_section(check: CalibrationCheck) -> Section:
    """Points not used for fitting, with predictions from published and from measured ceilings."""
    heads = ("independent point", "seen", "published", "measured")
    rows = [
        (one.point, si_text(one.measured, one.unit), *(f"{rate / one.measured - 1:+.0%}" for rate in (one.before, one.after)))
        for one in check.points
    ]
    parts = [text_table(heads, rows, numeric=heads[1:])] if rows else []
    return Section("Whether it predicts better", [*parts, Paragraph(check_text(check))])


def check_text(check: CalibrationCheck) -> str:
    """Sentence that says whether plans use the measured ceilings."""
    if not check.points:
        return "The measured ceilings cannot be checked: no complete step, prompt or decoding was measured (--suite standard measures them)."
    errors = f"mean error {percent_text(check.before)} by published figures, {percent_text(check.after)} by measured ones"
    if check.accepted:
        return f"Plans use the measured ceilings: {errors}."
    return f"Plans do not use the measured rates, because they predict complete steps less accurately: {errors}."


def proof_section(device: str, lines: Sequence[Proof]) -> Section:
    """Table with one row per point, and the number of points with each verdict."""
    heads = ("point", "expected", "seen", "verdict", "why")
    rows = [(one.point, _range(one), quantity_text(one.seen, one.unit), one.verdict, one.why) for one in lines]
    counts = {verdict: sum(one.verdict == verdict for one in lines) for verdict in dict.fromkeys(one.verdict for one in lines)}
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    said = [Paragraph(f"{len(lines)} figures: {verdicts}.")]
    if counts.get("disturbed", 0) > counts.get("within", 0):
        said.append(Paragraph("Most points were disturbed, so the result proves nothing. Run it again while the machine is idle."))
    return Section(f"What {device} shows", [text_table(heads, rows, numeric=heads[1:3]), *said])


def _range(one: Proof) -> str:
    if one.low is None or one.high is None:
        return UNKNOWN
    return f"{quantity_text(one.low, one.unit)} - {quantity_text(one.high, one.unit)}"
