"""Figures of a row (speed, latency, money): names, units and formats shared by tables, comparisons and reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import msgspec

from planner.engine.answers.figure import Figure
from planner.engine.answers.plan import PlanRow
from planner.present.cells import NumberText
from planner.present.plan import hours_text, money_text, percentile_of, rate_text, throughput, throughput_label
from planner.units import digits, duration_text, percent_text, si_text

PERCENTILES = ("mean", "p50", "p95", "p99")
LATENCIES = (("whole request", "request"), ("first token", "ttft"), ("next token", "tpot"), ("wait", "wait"))


class RowFigure(msgspec.Struct, frozen=True):
    """One figure of a row."""

    label: str
    unit: str
    """Unit after the value; empty if its text includes one."""
    figure: Callable[[PlanRow], Figure | None]
    text: NumberText
    group: Literal["speed", "latency", "money"]
    best_is_high: bool = False
    target: str = ""
    """Key of its target in the workload."""
    percentile: str = ""
    """Percentile of a latency; empty for other figures."""
    owned_label: str = ""
    """Label for bought or owned GPUs, if different."""

    @property
    def label_with_unit(self) -> str:
        """Label, with the unit if the text of a value does not include it."""
        return f"{self.label}, {self.unit}" if self.unit else self.label

    def label_of(self, row: PlanRow) -> str:
        """Label for `row`."""
        return self.owned_label if self.owned_label and row.owned is not None else self.label

    def long_text(self, value: float) -> str:
        """Value with its unit."""
        return f"{self.text(value)} {self.unit}".rstrip()


def row_figures(task: Mapping[str, Any]) -> list[RowFigure]:
    """All figures a row may have, in the order of display."""
    return [
        RowFigure(throughput_label(task), "", lambda row: throughput(row.answer), rate_text, "speed", best_is_high=True),
        RowFigure("tokens/s per GPU", "", lambda row: row.answer.tokens_per_s_per_gpu, rate_text, "speed", best_is_high=True),
        RowFigure("tokens/s of one stream", "", lambda row: row.answer.decode_tokens_per_s, rate_text, "speed", best_is_high=True),
        RowFigure("requests/s", "", lambda row: row.answer.requests_per_s, _requests_text, "speed", best_is_high=True),
        RowFigure("one optimizer step", "", lambda row: row.answer.step_s, duration_text, "speed"),
        RowFigure("MFU", "", lambda row: row.answer.mfu, percent_text, "speed", best_is_high=True),
        RowFigure("prefill", "", lambda row: row.answer.prefill_s, duration_text, "speed"),
        RowFigure("replicas busy", "", lambda row: row.answer.utilisation, percent_text, "speed"),
        *(_latency(label, name, percentile) for label, name in LATENCIES for percentile in PERCENTILES),
        RowFigure("rent", "$/h", lambda row: row.usd_per_h, money_text, "money", owned_label="an hour"),
        RowFigure("a month", "$", lambda row: None if row.job_usd else row.usd_per_month, money_text, "money"),
        RowFigure("the job takes", "", lambda row: row.job_h, hours_text, "money", target="deadline_h"),
        RowFigure("with failures", "", lambda row: row.expected_job_h, hours_text, "money"),
        RowFigure("the job costs", "$", lambda row: row.job_usd, money_text, "money", target="budget_usd"),
        RowFigure("a million tokens", "$", lambda row: row.answer.usd_per_million_tokens, money_text, "money"),
        RowFigure("compute", "FLOP per $", lambda row: row.answer.flop_per_usd, si_text, "money", best_is_high=True),
        RowFigure("energy", "a token", lambda row: row.answer.energy_j_per_token, partial(si_text, unit="J"), "money"),
    ]


def _requests_text(value: float) -> str:
    """Requests per second; small numbers have no prefix, because '6.94 m' could mean millions."""
    return digits(value) if value < 99_950 else si_text(value)


def _latency(label: str, name: str, percentile: str) -> RowFigure:
    figure = partial(percentile_of, name=name, percentile=percentile)
    target = f"{percentile}_{name}_s"
    return RowFigure(f"{label}, {percentile}", "", figure, duration_text, "latency", target=target, percentile=percentile)
