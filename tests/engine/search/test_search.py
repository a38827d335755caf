"""The search in columns finds what a search one by one does: memory of each candidate, and which of them become rows."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from engine_sample import session, workload
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from planner.engine.answers.answer import LayoutAnswer
from planner.engine.columns import Floats, LayoutColumns, added
from planner.engine.columns.table import JobColumns
from planner.engine.evaluate.candidates import Candidates, candidate_of
from planner.engine.evaluate.probability import room_for
from planner.engine.evaluate.task import Supply, Task
from planner.engine.memory import MemoryColumns, memory_of
from planner.engine.memory.overhead import training_slack
from planner.engine.memory.step_phases import Phase, phases_of
from planner.engine.memory.training import peak_of, terms_at
from planner.engine.performance.prefill_decode.generation import serve_of
from planner.engine.performance.training import step_of
from planner.engine.records.layout import CHECKPOINTING, Layout
from planner.engine.search.deployment import Deployments
from planner.engine.search.layouts import Layouts, enumerate_layouts
from planner.engine.search.memory_screen import screen
from planner.engine.search.selection import NO_FASTER, choose
from planner.engine.search.supply.bills import Nodes
from planner.engine.search.supply.node_types import NodeType, node_types_for
from planner.workload.tasks import Workload


def prepared(asked: Workload) -> tuple[Any, ...]:
    """Job, node types and chips of every part that can run it."""
    s, find_chip = session(), session().ceilings_cache.chips("spec")
    job = Task(asked, s.models_of(asked)).job()
    nodes = node_types_for(asked, Supply(s.gpus.all, s.gpus.find, s.offers, s.machine.devices, {}, find_chip, find_chip))
    found = [(node, find_chip(node.gpu, job.dtype, job.stored)) for node in nodes]
    return job, [node for node, chip in found if chip], [chip for _, chip in found if chip]


def everywhere(layouts: Layouts) -> tuple[np.ndarray, np.ndarray]:
    """Node type and layout of every candidate."""
    return np.repeat(np.arange(len(layouts.of_node)), [own.size for own in layouts.of_node]), np.concatenate(layouts.of_node)


def needless(layouts: Layouts, surely: np.ndarray) -> np.ndarray:
    """Candidates of which another that computes less again, and is the same in all else, fits `surely`."""
    d, (node, layout) = layouts.distinct, everywhere(layouts)
    names = [name for name in d.__struct_fields__ if name != "checkpointing"]
    work = {CHECKPOINTING[name]: place for place, name in enumerate(("none", "selective", "selective-op", "full"))}
    alike: dict[tuple[float, ...], list[tuple[int, int]]] = {}
    for row, (of, number) in enumerate(zip(node, layout, strict=True)):
        key = (of, *(getattr(d, name)[number] for name in names))
        alike.setdefault(key, []).append((work[float(d.checkpointing[number])], row))
    found = np.zeros(node.size, dtype=bool)
    for rows in alike.values():
        for (_, less), (_, more) in pairwise(sorted(rows)):
            found[more] = surely[less]
    return found


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("preset", "change"),
    [
        ("llama-3.1-8b-pretrain", {}),
        ("llama-3.1-8b-pretrain", {"sharding": "hsdp", "sequence": 3000}),
        ("llama-3.1-70b-qlora", {}),
        ("llama-3.1-70b-chat-service", {}),
        ("qwen3-32b-batch-job", {}),
    ],
)
def test_candidates_screened_are_those_one_by_one_with_the_same_memory(preset: str, change: dict[str, Any]) -> None:
    job, nodes, chips = prepared(workload(preset, **{"dtype": "bf16"} | change))
    chips[3] = replace(chips[3], context_bytes=5e8, allocator_slack=0.2)  # as if measured
    layouts = enumerate_layouts(job, nodes)
    assert layouts.distinct.gpus.size < layouts.candidates / 3
    node, layout = everywhere(layouts)
    every = memory_of(Candidates([job], np.zeros_like(node), chips, node, layouts.columns(node, layout)).table())
    filled, begins = every.total / every.usable, np.cumsum([0, *(own.size for own in layouts.of_node)])
    keep = every.fits.copy()
    for begin, end in pairwise(begins):
        keep[begin + filled[begin:end].tolist().index(filled[begin:end].min())] = True
    surely = np.log(every.usable / (1 - job.headroom) / every.total) >= every.above * room_for(job.workload.confidence)
    keep &= ~needless(layouts, surely)
    found = screen([job], np.zeros(len(nodes), dtype=np.int64), chips, layouts)
    np.testing.assert_array_equal(found.node_index, node[keep])
    np.testing.assert_array_equal(found.layout_index, layout[keep])
    assert found.fit == np.count_nonzero(every.fits)
    for name in MemoryColumns.__struct_fields__:
        np.testing.assert_array_equal(getattr(found.memory, name), getattr(every, name)[keep], err_msg=name)


@pytest.mark.parametrize(
    ("preset", "change"),
    [
        ("llama-3.1-405b-pretrain", {"max_gpus": 1024}),
        ("llama-3.1-8b-pretrain", {"sharding": "hsdp"}),
        ("mixtral-8x7b-lora", {}),
        ("qwen3-study-small", {}),
    ],
)
def test_steps_whose_passes_are_timed_once_take_what_each_takes(preset: str, change: dict[str, Any]) -> None:
    job, nodes, chips = prepared(workload(preset, **{"dtype": "bf16"} | change))
    layouts = enumerate_layouts(job, nodes)
    node, layout = everywhere(layouts)
    alike = layouts.pass_group(node, layout)
    assert np.unique(alike).size < node.size or layouts.distinct.gpus.size == 1
    table = Candidates([job], np.zeros_like(node), chips, node, layouts.columns(node, layout)).table()
    once, each = step_of(table, alike), step_of(table)
    for name in ("step_s", "tokens", "compute_bound", "model_flop"):
        np.testing.assert_array_equal(getattr(once, name), getattr(each, name), err_msg=name)
    for name, seconds in each.by_class.items():
        np.testing.assert_array_equal(once.by_class[name], seconds, err_msg=name)


@pytest.mark.parametrize("preset", ["qwen3-30b-a3b-service", "llama-3.1-70b-chat-service"])
def test_services_whose_prompts_are_timed_once_take_what_each_takes(preset: str) -> None:
    job, nodes, chips = prepared(workload(preset, dtype="bf16"))
    layouts = enumerate_layouts(job, nodes)
    node, layout = everywhere(layouts)
    alike = layouts.pass_group(node, layout)
    assert 2 * np.unique(alike).size < node.size
    table = Candidates([job], np.zeros_like(node), chips, node, layouts.columns(node, layout)).table()
    once, each = serve_of(table, continuous=True, alike=alike), serve_of(table, continuous=True)
    for name in ("prefill_s", "step_s", "requests_per_s", "compute_bound"):
        np.testing.assert_array_equal(getattr(once, name), getattr(each, name), err_msg=name)
    for name in ("ttft_s", "tpot_s", "request_s"):
        np.testing.assert_array_equal(getattr(once, name).p95, getattr(each, name).p95, err_msg=name)
    for name, seconds in each.by_class.items():
        np.testing.assert_array_equal(once.by_class[name], seconds, err_msg=name)


def test_a_number_that_all_records_have_is_kept_once_but_for_layouts() -> None:
    job, _, chips = prepared(workload("llama-3.1-70b-chat-service", dtype="bf16", gpus_considered=["L4"]))
    index = np.array([0, 1, 1])
    columns = JobColumns.gather([job, replace(job, headroom=0.5)], index)
    assert columns.headroom.tolist() == [job.headroom, 0.5, 0.5]
    assert columns.input_tokens.tolist() == [600]
    pair = candidate_of(job, chips[0], LayoutAnswer(gpus=2, tp=2)).layout
    one = Layout(**{name: float(getattr(pair, name)[0]) for name in Layout.__struct_fields__})
    layouts = LayoutColumns.gather([one, replace(one, sequences=8.0)], index)
    assert layouts.tp.tolist() == [2, 2, 2]
    assert layouts.sequences.tolist() == [1, 8, 8]


@pytest.mark.sweep
def test_the_peak_of_a_step_is_its_fullest_phase() -> None:
    job, nodes, chips = prepared(workload("llama-3.1-405b-pretrain", dtype="bf16", max_gpus=256))
    layouts = enumerate_layouts(job, nodes)
    node, layout = everywhere(layouts)
    t = Candidates([job], np.zeros_like(node), chips, node, layouts.columns(node, layout)).table()

    def with_slack(phase: Phase) -> Floats:
        terms = terms_at(t, phase)
        return np.broadcast_to(added(term.bytes for term in [*terms, training_slack(t, terms)]), (t.rows,))

    sums = [with_slack(phase) for phase in phases_of(t)]
    assert len({int(phase) for phase in np.argmax(sums, axis=0)}) > 1
    np.testing.assert_array_equal(with_slack(peak_of(t)), np.max(sums, axis=0))


def test_layouts_are_spread_over_the_gpus_they_name() -> None:
    job, nodes, _ = prepared(workload("llama-3.1-405b-pretrain", dtype="bf16"))
    found = enumerate_layouts(job, nodes)
    node, layout = everywhere(found)
    s, per_node = found.columns(node, layout), np.array([each.per_node for each in nodes])[node]
    np.testing.assert_array_equal(s.gpus, s.tp * s.pp * s.dp * s.cp)
    np.testing.assert_array_equal(s.gpus_per_node, np.minimum(per_node, s.gpus))
    most = np.array([each.most if each.largest else min(each.most, each.per_node) for each in nodes])[node]
    assert (s.gpus <= most).all()
    rows = {(int(place), *columns) for place, columns in zip(node, zip(*astuple(s), strict=True), strict=True)}
    assert len(rows) == node.size


def one_by_one(
    gpus: list[str], counts: list[float], tiers: list[int], keys: list[float], rates: list[float]
) -> list[tuple[int, bool]]:
    """What `choose` says, candidate after candidate."""
    kept: dict[str, list[int]] = {}
    seen = set()
    for row in sorted(range(len(gpus)), key=lambda row: (tiers[row], keys[row], -rates[row])):
        own = kept.setdefault(gpus[row], [])
        if (gpus[row], counts[row]) in seen or (own and tiers[row] > 1):
            continue
        if any(rates[row] <= rates[other] * NO_FASTER for other in own if tiers[other] == tiers[row]):
            continue
        seen.add((gpus[row], counts[row]))
        own.append(row)
    return [(row, row == own[0]) for own in kept.values() for row in own]


CANDIDATE = st.tuples(
    st.sampled_from(["A", "B", "C"]),
    st.sampled_from([1.0, 2.0, 4.0]),
    st.sampled_from([0, 0, 1, 1, 2, 3]),
    st.sampled_from([1.0, 1.5, 2.0, 3.0]),
    st.sampled_from([10.0, 10.005, 11.0, 20.0, 40.0]),
)


@pytest.mark.sweep
@settings(max_examples=300)
@given(st.lists(CANDIDATE, min_size=1, max_size=40))
def test_rows_are_chosen_as_one_by_one(candidates: list[tuple[str, float, int, float, float]]) -> None:
    gpus, counts, tiers, keys, rates = (list(column) for column in zip(*candidates, strict=True))
    key, tier = np.array(keys), np.array(tiers)
    names = sorted(set(gpus))
    memory = SimpleNamespace(fits=tier < 3, total=key, usable=np.ones(key.size))
    d = SimpleNamespace(
        evaluated=SimpleNamespace(memory=memory),
        workload=SimpleNamespace(request_rate_per_s=None),
        node_index=np.array([names.index(name) for name in gpus]),
        nodes=Nodes(cast("list[NodeType]", [SimpleNamespace(place=(name, "")) for name in names])),
        meets=tier < 2,
        sure=tier == 0,
        bill=SimpleNamespace(score=key, overshoot=key),
        gpus=np.array(counts),
        tokens_per_s=np.array(rates),
    )
    chosen = [(choice.row, choice.best) for choice in choose(cast("Deployments", d))]
    assert chosen == one_by_one(gpus, counts, tiers, keys, rates)
