"""Recorded traffic and its replay as sections: requests and latencies by the hour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from planner.present.cells import Cell, Column, Fact, Facts, Paragraph, Points, Section, Table, basis_legend, range_cell
from planner.present.names import device_name
from planner.present.plan import money_text
from planner.units import UNKNOWN, digits, duration_text, number_text, percent_text

if TYPE_CHECKING:
    from planner.engine.answers.figure import Percentiles
    from planner.engine.answers.replay import Replay, ReplayHour
    from planner.workload.tasks import Lengths
    from planner.workload.traffic.summary import Traffic, TrafficHour

LATENCIES = (("to the first token", "ttft_s"), ("between tokens", "tpot_s"), ("whole request", "request_s"), ("waiting", "wait_s"))


def clock_text(clock: str, begins_s: float) -> str:
    """Beginning of an hour: '2023-11-16 18:00', or the time since the first request."""
    return clock[:16].replace("T", " ") if clock else f"+{round(begins_s / 3600)} h"


def lengths_fact(label: str, lengths: Lengths | None) -> Fact:
    """Mean of a length with its percentiles."""
    if lengths is None:
        return Fact(label, UNKNOWN)
    shares = (("p50", lengths.p50), ("p95", lengths.p95))
    return Fact(label, digits(lengths.mean), ", ".join(f"{name} {digits(value)}" for name, value in shares if value is not None))


def traffic_sections(traffic: Traffic) -> list[Section]:
    """Facts on the traffic, then a table by the hour."""
    notes = [Points(traffic.notes)] if traffic.notes else []
    sections = [Section(f"Traffic: {traffic.source}", [Facts(list(_traffic_facts(traffic))), *notes])]
    if len(traffic.hours) > 1:
        sections.append(Section("By the hour", [Table(_HOUR_COLUMNS, traffic.hours)]))
    return sections


def _traffic_facts(traffic: Traffic) -> Iterator[Fact]:
    yield Fact("requests", f"{traffic.requests:,}", f"from {traffic.begins}" if traffic.begins else "")
    if traffic.seconds is not None:
        yield Fact("over", duration_text(traffic.seconds))
    peak = f"busiest hour {digits(traffic.peak_rate_per_s)}" if traffic.peak_rate_per_s else ""
    yield Fact("requests a second", digits(traffic.rate_per_s or None), peak)
    yield lengths_fact("input tokens", traffic.input_tokens)
    yield lengths_fact("output tokens", traffic.output_tokens)
    yield Fact("prefix tokens", digits(traffic.prefix_tokens), traffic.prefix_basis)
    yield Fact(
        "arrival variation",
        digits(traffic.arrival_variation),
        "1: at random; above: in bursts" if traffic.arrival_variation else "",
    )
    if traffic.waiting is not None:
        yield Fact("in the queue", digits(traffic.waiting), "when the page was made")
    for why, count in traffic.left_out.items():
        yield Fact("left out", f"{count:,}", why)


_HOUR_COLUMNS: tuple[Column[TrafficHour], ...] = (
    Column("hour", "hour", lambda hour: clock_text(hour.clock, hour.begins_s), priority=100),
    Column("requests", "requests", lambda hour: f"{hour.requests:,}", right=True),
    Column("rate", "a second", lambda hour: digits(hour.rate_per_s), right=True),
    Column("input", "input tokens", lambda hour: digits(hour.input_tokens), right=True, priority=80),
    Column("output", "output tokens", lambda hour: digits(hour.output_tokens), right=True, priority=80),
)


def replay_sections(replay: Replay) -> list[Section]:
    """Facts and latencies of the replay, then a table by the hour."""
    gpus = f"{replay.replicas} × {replay.gpus_per_replica} {device_name(replay.gpu)}, {replay.layout}"
    missed = [Paragraph(f"misses {'; '.join(replay.missed)}", "strong")] if replay.missed else []
    table = Table(_latency_columns(replay), LATENCIES)
    legend = basis_legend(figure for figure in (replay.ttft_s.mean, replay.request_s.mean))
    sections = [
        Section(
            f"Replay of {replay.source} on {gpus}", [Facts(list(_replay_facts(replay))), table, *missed, Paragraph(legend, "faint")]
        )
    ]
    if len(replay.hours) > 1:
        sections.append(Section("By the hour", [Table(_REPLAY_COLUMNS, replay.hours)]))
    if replay.notes:
        sections.append(Section("Notes", [Points(replay.notes)]))
    return sections


def _replay_facts(replay: Replay) -> Iterator[Fact]:
    yield Fact("requests", f"{replay.requests:,}", f"in {duration_text(replay.seconds)}")
    yield Fact("inside at a time", digits(replay.in_flight), f"{percent_text(replay.utilisation)} of the time a replica computes")
    if replay.replicas_needed is not None:
        hour = max(replay.hours, key=lambda hour: hour.replicas_needed or 0)
        yield Fact("replicas needed", str(replay.replicas_needed), f"in the hour {clock_text(hour.clock, hour.begins_s)}")
    if replay.preemptions:
        yield Fact("preemptions", f"{replay.preemptions:,}")
    if replay.usd:
        yield Fact(
            "cost", range_cell(replay.usd, money_text), f"$, {replay.replicas} replica{'s' * (replay.replicas > 1)} all the time"
        )
    if replay.usd_by_hour:
        yield Fact("cost by the hour", range_cell(replay.usd_by_hour, money_text), "$, as many as each hour needs")


def _latency_columns(replay: Replay) -> Sequence[Column[tuple[str, str]]]:
    def column(share: str) -> Column[tuple[str, str]]:
        def cell(item: tuple[str, str]) -> Cell | str:
            found: Percentiles | None = getattr(replay, item[1])
            return range_cell(getattr(found, share), duration_text) if found else UNKNOWN

        return Column(share, share, cell, right=True)

    return [Column("latency", "latency", lambda item: item[0]), *(column(share) for share in ("mean", "p50", "p95", "p99"))]


def _share(latency: Percentiles | None, share: str) -> str:
    figure = getattr(latency, share) if latency else None
    return duration_text(figure.value) if figure else UNKNOWN


_REPLAY_COLUMNS: tuple[Column[ReplayHour], ...] = (
    Column("hour", "hour", lambda hour: clock_text(hour.clock, hour.begins_s)),
    Column("requests", "requests", lambda hour: f"{hour.requests:,}", right=True),
    Column("rate", "a second", lambda hour: digits(hour.rate_per_s), right=True, priority=90),
    Column("needed", "replicas", lambda hour: number_text(hour.replicas_needed), right=True),
    Column("ttft", "TTFT p95", lambda hour: _share(hour.ttft_s, "p95"), right=True),
    Column("tpot", "TPOT p95", lambda hour: _share(hour.tpot_s, "p95"), right=True, priority=80),
    Column("request", "request p50", lambda hour: _share(hour.request_s, "p50"), right=True, priority=70),
    Column("request95", "p95", lambda hour: _share(hour.request_s, "p95"), right=True),
    Column("request99", "p99", lambda hour: _share(hour.request_s, "p99"), right=True, priority=70),
)
