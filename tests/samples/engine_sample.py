"""The engine on shipped data, without this machine's measurements: what the tests of its formulas share."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from planner.engine.answers.answer import Answer
from planner.engine.answers.memory import MemoryBytes
from planner.engine.answers.plan import Plan, PlanRow
from planner.engine.columns import LayoutColumns
from planner.engine.evaluate.candidates import Candidates
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.job.resolve import resolve
from planner.engine.performance.operators.chip import Chip
from planner.errors import UserError
from planner.schema import read_struct
from planner.session import Session
from planner.workload.architecture import Architecture, Models
from planner.workload.presets import read_workload
from planner.workload.tasks import Request, Workload

COMPONENTS = ("weights", "gradients", "optimizer", "activations", "logits", "kv_cache", "buffers", "overhead")
NOWHERE = Path("/nonexistent")


@cache
def session() -> Session:
    """One for all: what it reads does not change."""
    return Session.open(state=NOWHERE, config=NOWHERE)


DEAR_PRESETS = frozenset(
    {
        "deepseek-v3-service",
        "llama-3.1-405b-pretrain",
        "llama-3.2-3b-gathered",
        "llama-3.2-3b-real-time",
        "qwen3-30b-a3b-service",
        "qwen3-8b-grpo",
    }
)
"""Presets that take longest to plan: half of what all take."""


def each_preset() -> list[Any]:
    """Every shipped workload, as parameters of a test; the quick tests leave out those that take longest."""
    names = session().presets.names()
    return [pytest.param(name, marks=pytest.mark.sweep) if name in DEAR_PRESETS else name for name in names]


def architecture(model: str) -> Architecture:
    return session().architecture(model)


def ask_all(*requests: dict[str, Any]) -> list[Answer | UserError]:
    """Answers to candidates as a line of `estimate` states them, from the vendor's figures."""
    read: list[Request | UserError] = []
    for fields in requests:
        try:
            read.append(read_struct(Request, msgspec.to_builtins(fields), ""))
        except UserError as error:
            read.append(error)
    found = iter(session().estimate([one for one in read if isinstance(one, Request)], basis="spec"))
    return [one if isinstance(one, UserError) else next(found) for one in read]


def ask_together(*requests: dict[str, Any]) -> list[Answer]:
    """Candidates from the vendor's figures, in little more time than one of them takes; raises what is wrong with one."""
    answers = []
    for answer in ask_all(*requests):
        if isinstance(answer, UserError):
            raise answer
        answers.append(answer)
    return answers


def ask(**fields: Any) -> Answer:
    """One candidate from the vendor's figures; raises what is wrong with it."""
    return ask_together(fields)[0]


def memories(*requests: dict[str, Any]) -> list[MemoryBytes]:
    """Memory of candidates asked together."""
    found = [answer.memory_bytes for answer in ask_together(*requests)]
    assert None not in found
    return [one for one in found if one is not None]


def memory(**fields: Any) -> MemoryBytes:
    return memories(fields)[0]


def parts(found: MemoryBytes) -> dict[str, float]:
    return {name: getattr(found, name) for name in COMPONENTS}


def chip(gpu: str, dtype: str = "bf16", stored: str = "bf16") -> Chip:
    found: Chip | None = session().ceilings_cache.chips("spec")(session().gpus.find(gpu), dtype, stored)
    assert found is not None
    return found


LAYOUT = dict.fromkeys(LayoutColumns.__struct_fields__, 1.0) | {
    "zero": 0.0,
    "checkpointing": 0.0,
    "nvlink": 1.0,
    "gpus_per_node": 8.0,
    "link_bytes_per_s": 450e9,
    "fabric_bytes_per_s": 50e9,
    "prefill": 0.0,
}


def candidate(device: Chip, layout: dict[str, float] | None = None, **workload: Any) -> Candidates:
    """One row: `workload` on `device`, on one GPU unless `layout` says otherwise."""
    asked = read_workload(workload, "test")
    given = LAYOUT | {"micro_batch": float(asked.micro_batch or 1), "sequences": float(asked.batch or 1)} | (layout or {})
    columns = LayoutColumns(**{name: np.array([value]) for name, value in given.items()})
    one = np.zeros(1, dtype=np.int64)
    return Candidates([resolve(asked, Models(session().architecture(asked.model)))], one, [device], one, columns)


def evaluated(device: Chip, layout: dict[str, float] | None = None, **workload: Any) -> Evaluated:
    return evaluate(candidate(device, layout, **workload))


def workload(preset: str, **changes: Any) -> Workload:
    """A shipped preset with some keys changed."""
    stated = msgspec.to_builtins(session().presets.load(preset).workload)
    return session().workload(stated | changes, "test")


@cache
def shipped(preset: str) -> Plan:
    """From the vendors' figures."""
    return session().plan(workload(preset), basis="spec")


def plan(preset: str, **changes: Any) -> Plan:
    """Without a search for levers."""
    return session().plan(workload(preset, **changes), basis="spec", levers=False)


def solutions(found: Plan) -> list[PlanRow]:
    """The rows that fit with the confidence asked for."""
    return [row for row in found.rows if row.verdict == "fits"]


def gpus_of(row: PlanRow) -> int:
    assert row.answer.layout is not None
    return row.answer.layout.gpus
