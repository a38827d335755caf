"""The items of memory: every byte has a name, a formula with the candidate's numbers, and a source."""

from __future__ import annotations

import re
from string import Formatter
from typing import Any

import numpy as np
import pytest
from engine_sample import COMPONENTS, each_preset, plan, session, workload
from hypothesis import given, settings
from hypothesis import strategies as st
from planned_sample import PRESETS, TASKS, asked

from planner.engine.answers.memory import MemoryDetail
from planner.engine.answers.plan import PlanRow
from planner.engine.evaluate.candidates import candidate_of
from planner.engine.explain.details import cell, formula_text, number_text
from planner.engine.memory import terms_of
from planner.engine.memory.terms import Term
from planner.workload.tasks import Workload


def detail(of: Workload, row: PlanRow) -> MemoryDetail:
    found = session().memory_detail(of, row)
    assert found is not None
    return found


@pytest.mark.sweep
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(preset=st.sampled_from(PRESETS), task=st.sampled_from(sorted(TASKS)), place=st.floats(0, 1, exclude_max=True))
def test_the_items_add_up_to_the_row(preset: str, task: str, place: float) -> None:
    of, found = asked(preset, task)
    rows = [row for row in found.rows if row.answer.memory_bytes]
    row = rows[int(place * len(rows))]
    memory = row.answer.memory_bytes
    assert memory is not None
    items = detail(of, row)
    assert items.total_bytes == memory.total.value, "to the bit"
    assert items.capacity_bytes == memory.capacity
    assert all(item.bytes > 0 and item.name and item.formula and item.source for item in items.items)
    for component in COMPONENTS:
        parts = [item.bytes for item in items.items if item.component == component]
        assert sum(parts) == pytest.approx(getattr(memory, component), rel=1e-12)
    assert [item.component for item in items.items] == sorted((item.component for item in items.items), key=COMPONENTS.index)
    assert items.usable_bytes == memory.usable
    assert (items.left_bytes >= 0) == row.answer.fits


def test_the_rule_of_the_engine_and_the_headroom_are_told() -> None:
    of = workload("qwen3-8b-single-user-chat", memory_fraction=0.85, targets={"headroom": 0.05}, gpus_considered=["H200 SXM"])
    row = session().plan(of, basis="spec").rows[0]
    found = detail(of, row)
    assert (found.memory_fraction, found.headroom) == (0.85, 0.05)
    assert found.usable_bytes == pytest.approx(found.capacity_bytes * 0.85 * 0.95)
    assert found.usable_bytes < found.capacity_bytes < found.label_bytes
    assert found.capacity_source


def test_a_row_that_is_not_supported_has_no_items() -> None:
    of = workload("llama-3.1-8b-lora", dtype="bf16", gpus_considered=["T4"])
    (row,) = (row for row in session().plan(of, basis="spec").rows if not row.here)
    assert session().memory_detail(of, row) is None


def test_this_machine_is_looked_at_as_it_is() -> None:
    of = workload("qwen3-study-small", dtype="fp32", recipe="fp32")  # every processor has that arithmetic
    found = session().plan(of, basis="spec")
    (row,) = (row for row in found.rows if row.here)
    assert row.answer.memory_bytes is not None
    assert detail(of, row).total_bytes == row.answer.memory_bytes.total.value


def test_numbers_of_the_user_stand_in_the_formulas() -> None:
    of = workload("llama-3.1-8b-full-finetune", micro_batch=1, sequence=3072, gpus_considered=["H200 SXM"])
    row = plan("llama-3.1-8b-full-finetune", micro_batch=1, sequence=3072, gpus_considered=["H200 SXM"]).rows[0]
    formulas = " ".join(item.formula for item in detail(of, row).items)
    assert "3,072" in formulas
    assert "{" not in formulas


UNITS = r"\b(layers|tokens|sequences|parameters|others|logits|elements|outputs|gradients|ranks|B)\b|GiB|MiB|%"


@pytest.mark.parametrize("preset", each_preset())
def test_every_factor_of_a_formula_has_a_unit(preset: str) -> None:
    of, found = asked(preset, "as it ships")
    for item in detail(of, found.rows[0]).items:
        for factor in re.split(r" [·÷+] ", item.formula):
            assert re.search(UNITS, factor) or item.formula.endswith(f"÷ {factor} layers"), (item.name, item.formula)


def test_each_part_of_the_overhead_says_what_it_rests_on() -> None:
    of, found = asked("llama-3.1-70b-chat-service", "as it ships")
    row = next(row for row in found.rows if row.answer.layout and row.answer.layout.tp > 1)
    overhead = [item for item in detail(of, row).items if item.component == "overhead"]
    assert len({item.source for item in overhead}) == len(overhead) == 3
    context, communicators, _ = overhead
    assert context.formula == "0.5 GiB context + 0.9 GiB graphs and libraries"
    assert "an assumption" in context.source
    assert "TP >= 2" in communicators.source
    assert "TP >= 2" not in context.source


def worked_out(found: Term) -> float:
    """The formula of a term of one row as Python's own arithmetic has it, words left out."""
    parts = []
    for text, symbol, _, _ in Formatter().parse(found.formula):
        parts.append(re.sub(r"(?!\b(?:min|max)\b)\b[A-Za-z_]+", "", text))
        if symbol is not None:
            parts.append(repr(cell(found.values[symbol], 0)))
    return float(eval("".join(parts).replace("·", "*").replace("÷", "/"), {"inf": float("inf"), "min": min, "max": max}))  # noqa: S307  (a formula of ours)


@pytest.mark.sweep
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("preset", ["llama-3.1-70b-chat-service", "llama-3.1-8b-full-finetune", "qwen3-30b-a3b-service"])
def test_formulas_give_the_bytes_they_stand_for(preset: str, task: str) -> None:
    of, found = asked(preset, task)
    for row in [row for row in found.rows if row.answer.memory_bytes and not row.here][::12]:
        job = session().job(of, row)
        chip = session().ceilings_cache.chips("spec")(session().gpus.find(row.gpu), job.dtype, job.stored)
        assert chip is not None
        assert row.answer.layout is not None
        for part in terms_of(candidate_of(job, chip, row.answer.layout).table()):
            if cell(part.bytes, 0) > 0:
                assert worked_out(part) == pytest.approx(cell(part.bytes, 0), rel=1e-9), (part.name, part.formula, row.gpu)


def term(formula: str, **values: Any) -> Term:
    return Term(
        "weights", "weights", np.array([1.0]), formula, {name: np.array(value) for name, value in values.items()}, "by hand"
    )


def test_how_numbers_read() -> None:
    said = formula_text(term("{a} layers · {b} · {c:bytes} ÷ {d:percent}", a=[32.0], b=[1.015625], c=[3 * 2**30], d=[0.5]), 0)
    assert said == "32 layers · 1.016 · 3.0 GiB ÷ 50 %"
    assert formula_text(term("{a} · {b}", a=[1.0, 2.0], b=[7e9]), 1) == "2 · 7,000,000,000"
    assert [number_text(value) for value in (0.0, 4096.0, 0.53125, 1234.5)] == ["0", "4,096", "0.5312", "1,234"]
    assert formula_text(term("{a} ÷ {b} · {c} + {d}", a=[8.0], b=[1.0], c=[16.0], d=[0.0]), 0) == "8 · 16"
    assert formula_text(term("{a} ÷ {b}", a=[8.0], b=[1.5]), 0) == "8 ÷ 1.5"
    assert formula_text(term("{a} B ÷ {b} ranks · {c}", a=[8.0], b=[1.0], c=[1.0]), 0) == "8 B"
    assert formula_text(term("{a} B + {b:bytes}", a=[8.0], b=[0.0]), 0) == "8 B"


@pytest.mark.parametrize("formula", ["{missing}", "{a:furlongs}"])
def test_a_symbol_that_cannot_be_read_is_refused(formula: str) -> None:
    with pytest.raises(ValueError, match=r"of \['a'\]"):
        formula_text(term(formula, a=[1.0]), 0)
