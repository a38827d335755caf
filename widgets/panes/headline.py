"""Top line: what is planned, on what, at which prices."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.content import Content
from textual.widgets import Static

from planner.present.names import device_name, model_name
from planner.units import duration_text, si_text, usd_text
from widgets.drawing.symbols import UNICODE, Symbols
from widgets.drawing.text import shorten_end, shorten_middle

if TYPE_CHECKING:
    from planner.engine.answers.plan import Plan, PlanRow


LAST_ANSWER = "last answer"
"""Words before a workload that is not the one asked for."""
GAP = 3
"""Least number of cells between the two sides."""
LEAST_NAME = 16
"""Cells that a preset's name keeps at least, where its middle makes room for the load."""
ROUNDED = 10
"""Mean tokens from which they are shown as a whole number."""
MANY = 1000
"""Requests a second from which they are shown as a whole number."""


class Headline(Static):
    """Headline: the plan, the age of the prices, and whether this machine was measured; parts go from the right of each side."""

    def __init__(self, *, symbols: Symbols = UNICODE) -> None:
        super().__init__(id="headline")
        self._ellipsis = symbols.ellipsis
        self._left: Sequence[str] = ()
        self._right: Sequence[str] = ()
        self._of_before = False

    def show(self, left: Sequence[str], right: Sequence[str], *, of_before: bool = False) -> None:
        """Set the parts of both sides, most telling first; `of_before`: what is planned is not what is asked for now."""
        if of_before and len(left) > 1:
            left = [left[0], f"{LAST_ANSWER}: {left[1]}", *left[2:]]
        if (left, right, of_before) != (self._left, self._right, self._of_before):
            self._left, self._right, self._of_before = left, right, of_before
            self._draw()

    def on_resize(self) -> None:
        """Fit to the new width."""
        self._draw()

    def _draw(self) -> None:
        room = self.content_size.width
        if not room or not self._left:
            return
        head, right = self._left[0], ""
        for kept in range(len(self._right), 0, -1):
            right = "   ".join(self._right[:kept])
            if len(right) + 3 + len("  ·  ".join(self._left)) <= room:
                break
        right = right if len(head) + 3 + len(right) <= room else ""
        head, rest = _fitted(head, self._left[1:], room - len(right) - 2 - GAP, self._ellipsis)
        gap = room - len(head) - 2 - len(rest) - len(right)
        self.update(
            Content.assemble(
                (head, "bold $foreground"),
                "  ",
                (rest, "$quiet 60%" if self._of_before else "$quiet"),
                " " * max(GAP, gap),
                (right, "$quiet"),
            ),
            layout=False,
        )


def _fitted(head: str, parts: Sequence[str], room: int, ellipsis: str) -> tuple[str, str]:
    """The name, its middle left out where one more part has room then, and whole parts; a first one that is too long is cut."""
    name, mark, changed = head.partition(" · ")
    for kept in range(len(parts), 0, -1):
        text = " · ".join(parts[:kept])
        left = room - len(text) - len(mark + changed)
        if left >= min(len(name), LEAST_NAME):
            return f"{shorten_middle(name, left, ellipsis)}{mark}{changed}", text
    return head, shorten_end(parts[0], max(0, room - len(head)), ellipsis) if parts else ""


def headline_parts(
    preset: str, task: Mapping[str, Any], plan: Plan | None, row: PlanRow | None, here: str, today: dt.date
) -> tuple[list[str], list[str]]:
    """Left side (what is planned) and the right side (the price of `row`, or the oldest; this machine), most telling first."""
    left = [preset, model_name(task), *load_summary(task)]
    right = []
    measured = [row.gpu for row in plan.rows if row.here and row.basis == "measured"] if plan is not None else []
    if row is not None and row.offer is not None:
        right.append(f"row's price {_age(row.offer.as_of, today) or f'of {row.offer.as_of}'}")
    elif plan is not None and plan.prices_as_of:
        right.append(f"oldest price {_age(plan.prices_as_of, today) or f'of {plan.prices_as_of}'}")
    if measured or here:
        right.append(f"{device_name(measured[0])} measured here" if measured else here)
    return left, right


def _age(as_of: str, today: dt.date) -> str:
    try:
        days = (today - dt.date.fromisoformat(as_of[:10])).days
    except ValueError:
        return ""
    return f"{days} d old" if days > 0 else ""


def load_summary(task: Mapping[str, Any]) -> list[str]:
    """Demand of a workload in short parts, most telling first: ['16.7 req/s', '600 → 200 tokens', 'p95 < 5 s']."""
    parts: list[str] = []
    if rate := task.get("request_rate_per_s"):
        parts.append(f"{rate:,.4g} req/s" if rate < MANY else f"{rate:,.0f} req/s")
    elif concurrency := task.get("concurrency"):
        parts.append(f"{concurrency} at once")
    if sequence := task.get("sequence"):
        parts.append(f"{sequence:,} tokens a sequence")
    if batch := task.get("global_batch") or task.get("batch"):
        parts.append(f"batch {batch:,}")
    if task.get("input_tokens") is not None:
        out = task.get("output_tokens")
        parts.append(tokens_text(task["input_tokens"]) + (f" in, {tokens_text(out)} out" if out is not None else " tokens in"))
    if tokens := task.get("train_tokens"):
        parts.append(f"{si_text(tokens)} tokens".replace(" G tokens", " B tokens"))
    elif (epochs := task.get("epochs")) and (tokens := task.get("dataset_tokens")):
        parts.append(f"{epochs:g} epochs of {si_text(tokens)} tokens".replace(" G tokens", " B tokens"))
    targets = task.get("targets", {})
    labels = (("p95_request_s", "p95"), ("p95_ttft_s", "first token p95"), ("p95_tpot_s", "next token p95"))
    parts += [f"{label} < {targets[key]:g} s" for key, label in labels if targets.get(key)]
    if deadline := targets.get("deadline_h"):
        parts.append(f"within {duration_text(deadline * 3600)}")
    if budget := targets.get("budget_usd"):
        parts.append(f"≤ {usd_text(budget)} $")
    return parts


def tokens_text(lengths: Any) -> str:
    """Token lengths of a workload: 600, or {'mean': 600, 'p95': 1500} -> '600 (p95 1,500)'."""
    if isinstance(lengths, Mapping):
        tail = f" (p95 {lengths['p95']:,.0f})" if lengths.get("p95") else ""
        return f"{lengths['mean']:{',.0f' if lengths['mean'] >= ROUNDED else '.3g'}}{tail}"
    return f"{lengths:,.0f}"
