"""Changes to try on a workload that has a solution, and the difference that a change makes to the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from planner.engine.answers.figure import value_of
from planner.engine.answers.plan import Plan, PlanRow
from planner.present.choice.sentence import ALIKE, cost_text, count_and_device
from planner.units import change_text, digits, duration_text
from planner.workload.tasks import trains

SMALLER = {"fp32": "bf16", "bf16": "fp8", "fp16": "fp8", "fp8": "int4", "int8": "int4"}
"""Format of weights -> the next smaller one."""
TWICE, HALF = 2.0, 0.5


class Alternative(msgspec.Struct, frozen=True):
    """A change of a workload, by dotted keys, with its description."""

    words: str
    change: Mapping[str, Any]
    other_work: bool = False
    """True if it changes the work itself, so that a higher price may be justified."""


def alternatives(task: Mapping[str, Any]) -> list[Alternative]:
    """Changes of the workload of a plan (`Plan.task`), beginning with those that do not change the work itself."""
    parts = (_market, _precision, _load, _lengths, _targets)
    return [found for part in parts for found in part(task)]


def _market(task: Mapping[str, Any]) -> Iterator[Alternative]:
    if task.get("market", "on-demand") == "on-demand":
        yield Alternative("spot prices", {"market": "spot"})
        if not (task.get("train_tokens") or task.get("dataset_tokens") or task.get("requests")):
            yield Alternative(
                "reserved for a year", {"market": "reserved-1y"}
            )  # a job that ends would pay for the rest of the year in vain
    else:
        yield Alternative("on-demand prices", {"market": "on-demand"})


def _precision(task: Mapping[str, Any]) -> Iterator[Alternative]:
    if trains(task.get("task")):
        lora = task.get("lora")
        if lora and lora.get("base", "bf16") in {"fp32", "bf16", "fp16"}:
            yield Alternative("4-bit base weights (QLoRA)", {"lora.base": "nf4"})
        if task.get("checkpointing") != "full":
            yield Alternative("full activation checkpointing", {"checkpointing": "full"})
        return
    smaller = SMALLER.get(str(task.get("weight_dtype") or task.get("dtype") or ""))
    if smaller is not None:
        yield Alternative(f"{smaller} weights", {"weight_dtype": smaller})
    if task.get("kv_dtype") not in {"fp8", "int8", "int4"}:
        yield Alternative("fp8 KV cache", {"kv_dtype": "fp8"})


def _load(task: Mapping[str, Any]) -> Iterator[Alternative]:
    rate, batch = task.get("request_rate_per_s"), task.get("global_batch")
    if rate:
        for words, factor in (("twice the load", TWICE), ("half the load", HALF)):
            yield Alternative(f"{words}, {digits(rate * factor)} req/s", {"request_rate_per_s": rate * factor}, other_work=True)
    elif batch:
        yield Alternative(f"batch of {batch * 2:,}", {"global_batch": batch * 2}, other_work=True)


def _lengths(task: Mapping[str, Any]) -> Iterator[Alternative]:
    for key, words in (("input_tokens", "input"), ("output_tokens", "output"), ("sequence", "sequence")):
        if isinstance(tokens := task.get(key), int):
            yield Alternative(f"twice the {words}, {tokens * 2:,} tokens", {key: tokens * 2}, other_work=True)


def _targets(task: Mapping[str, Any]) -> Iterator[Alternative]:
    for key, value in task.get("targets", {}).items():
        if not isinstance(value, int | float):
            continue
        if key.startswith("p") and key.endswith("_s"):
            share, latency, _ = key.split("_")
            name = {"request": "request", "ttft": "first token", "tpot": "next token"}[latency]
            yield Alternative(f"{share} {name} within {duration_text(value * TWICE)}", {f"targets.{key}": value * TWICE})
        elif key == "deadline_h":
            yield Alternative("twice the time", {"targets.deadline_h": value * TWICE})


class Trial(msgspec.Struct, frozen=True):
    """A change of the workload on trial."""

    change: str
    """Change in words."""
    before: Plan
    """Plan without the change."""
    difference: str = ""

    @property
    def text(self) -> str:
        """Change with its difference."""
        return f"{self.change}: {self.difference}" if self.difference else self.change

    @property
    def short_text(self) -> str:
        """Change with the difference in percent only: 'spot prices (+24 %)', because the answer next to it has the new price."""
        _, bracket, share = self.difference.rpartition(" (")
        return f"{self.change}{bracket}{share}" if bracket else self.change

    def compared(self, after: Plan) -> Trial:
        """This trial with the difference of `after` from the plan without the change."""
        return replace(self, difference=difference(self.before, after))


def difference(before: Plan, after: Plan) -> str:
    """Difference of the first solution of `after` from that of `before`: '9,640 → 6,200 $/month (-36 %)'."""
    was, now = before.best, after.best
    if now is None:
        return "still nothing fits" if was is None else "nothing fits any more"
    if was is None:
        return f"now {count_and_device(now)} fits"
    old, new = _price(was), _price(now)
    if old is not None and new is None:
        return "no listed price for that"
    moved = f"{count_and_device(was)} → {count_and_device(now)}" if count_and_device(was) != count_and_device(now) else ""
    if old is None or new is None or not old:
        return moved or "the same answer"
    if abs(new / old - 1) < ALIKE:
        return moved or "the same price"
    return f"{cost_text(was).split(' ')[0]} → {cost_text(now)} ({change_text(new / old - 1)})"


class Effect(msgspec.Struct, frozen=True):
    """Effect of a change on the answer."""

    text: str
    price_change: float | None = None
    """Price with the change ÷ price without, minus one; None if one of them is unknown."""
    solved: bool = True
    """True if there is a solution with the change."""

    def is_worth_naming(self, alternative: Alternative, task: Mapping[str, Any]) -> bool:
        """True unless the same work costs more with the change and only the price matters."""
        dearer = self.price_change is not None and self.price_change >= ALIKE
        return alternative.other_work or not dearer or task.get("objective", "cheapest") in {"fastest", "fewest-gpus"}

    def order(self, alternative: Alternative) -> tuple[bool, bool, float]:
        """Sort key: changes for the same work by saving, then those for other work, then those without a solution."""
        return not self.solved, alternative.other_work, self.price_change or 0.0


def effect_of(before: Plan, after: Plan) -> Effect:
    """Difference of the first solution of `after` from that of `before`."""
    old, new = (_price(plan.best) if plan.best else None for plan in (before, after))
    return Effect(difference(before, after), new / old - 1 if old and new is not None else None, after.best is not None)


def _price(row: PlanRow) -> float | None:
    return value_of(row.job_usd or row.usd_per_month or row.usd_per_h)
