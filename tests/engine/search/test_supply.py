"""First rows can be ordered: the offer exists at that size, and the network it needs is sold with it."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from engine_sample import each_preset, plan, session, workload
from msgspec.structs import replace

from planner.engine.answers.plan import Plan, PlanRow
from planner.engine.evaluate.task import Supply, Task
from planner.engine.search.plan import make_plan
from planner.errors import UserError
from planner.hardware.prices.offers import Offer
from planner.hardware.prices.providers import USUAL_NODES
from planner.present.prices import network_sentence, network_text, offer_sentence

H100 = "H100 SXM5 80GB"
TRAINED = {"model": "llama-3.1-8b", "task": "train", "recipe": "mixed", "sequence": 2048, "train_tokens": 1e10}


def asked(fields: dict[str, Any]) -> Plan:
    return session().plan(session().workload(fields, "test"), basis="spec", levers=False)


def random_workload(seed: int) -> dict[str, Any]:
    """One of the tasks on one of the models, at a size and a market drawn from `seed`."""
    draw = random.Random(seed)  # noqa: S311  # samples, no secrets
    task = draw.choice(["train", "finetune", "serve", "serve", "generate"])
    fields: dict[str, Any] = {
        "task": task,
        "model": draw.choice(["llama-3.2-3b", "llama-3.1-8b", "qwen3-32b", "llama-3.1-70b", "mixtral-8x7b"]),
    }
    fields["market"] = draw.choice(["on-demand", "on-demand", "spot", "any"])
    fields["max_gpus"] = draw.choice([8, 64, 512, 4096])
    if task in {"train", "finetune"}:
        return fields | {"sequence": draw.choice([2048, 8192]), "recipe": "mixed", "train_tokens": 10.0 ** draw.randint(7, 11)}
    fields |= {"input_tokens": draw.choice([200, 2000]), "output_tokens": draw.choice([50, 400])}
    if task == "generate":
        return fields | {"batch": draw.choice([1, 16])}
    return fields | draw.choice([{"concurrency": 16}, {"concurrency": "max"}, {"concurrency": 64, "requests": 1e5}])


def offer_of(row: PlanRow) -> Offer:
    assert row.offer is not None
    known = (row.offer.provider, row.offer.instance, row.offer.region, row.gpu)
    found = [one for one in session().offers if (one.provider, one.instance, one.region, one.gpu) == known]
    assert found, known
    return found[0]


def check_can_be_ordered(row: PlanRow) -> None:
    """The offer holds the GPUs of a node, as many nodes can be had, and where they exchange data a network is sold with them."""
    offer, layout, network = offer_of(row), row.answer.layout, row.answer.network
    assert row.offer is not None
    assert layout is not None
    assert network is not None
    assert row.offer.gpus <= (offer.gpus_max or offer.gpus)
    assert row.offer.gpus * row.offer.instances >= layout.gpus
    provider = session().providers[offer.provider]
    sold = provider.network_of(offer.instance)
    assert sold is not None
    most = max(sold.most_nodes or provider.most_nodes or USUAL_NODES[provider.kind_of(offer)], sold.most_nodes_by_agreement or 0)
    assert row.offer.instances <= most
    assert network.nodes == row.offer.instances
    if network.joined_nodes > 1:
        assert sold.node_bytes_per_s is not None
        assert network.bytes_per_s == pytest.approx(sold.node_bytes_per_s / row.offer.gpus)
        assert "fabric" in row.answer.assumed
    assert network_sentence(row)


@pytest.mark.parametrize("preset", each_preset())
def test_the_first_row_of_a_preset_can_be_ordered(preset: str) -> None:
    check_can_be_ordered(plan(preset).rows[0])


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(10, 30))])
def test_the_first_row_of_any_workload_can_be_ordered(seed: int) -> None:
    first = asked(random_workload(seed)).rows[0]
    if first.rank and first.offer:
        check_can_be_ordered(first)
    else:
        assert not first.rank or first.usd_per_h is None, "a price comes with an offer"


def test_nobody_trains_over_machines_of_strangers() -> None:
    for row in asked(TRAINED | {"max_gpus": 256, "kinds": ["peer-to-peer", "marketplace"]}).rows:
        if row.offer:
            assert row.offer.instances == 1, row.offer


def test_more_than_can_be_ordered_comes_with_a_contract() -> None:
    rows = asked(
        TRAINED | {"max_gpus": 1024, "gpus_considered": [H100], "providers": ["azure"], "targets": {"deadline_h": 1.0}}
    ).rows
    over = next(row for row in rows if row.offer and row.offer.instances > 100)
    assert over.answer.network is not None
    assert over.answer.network.by_agreement
    assert "nodes need a contract with azure" in over.why


def test_keys_of_supply_replace_what_the_catalogue_says() -> None:
    base = TRAINED | {"max_gpus": 64, "gpus_considered": [H100]}
    alone = asked(base | {"fabric": "none"})
    assert all(row.answer.layout is None or row.answer.layout.gpus <= 8 for row in alone.rows if row.offer)
    few = asked(base | {"max_nodes": 2})
    assert max(row.answer.layout.gpus for row in few.rows if row.answer.layout and row.rank) == 16
    slow, fast = (asked(base | {"fabric": rate, "providers": ["aws"]}) for rate in (1e9, 50e9))
    speeds = [
        max(row.answer.tokens_per_s.value for row in one.rows if row.answer.tokens_per_s and row.rank) for one in (slow, fast)
    ]
    assert speeds[0] < 0.8 * speeds[1]
    given = next(row for row in fast.rows if row.answer.network and row.answer.network.joined_nodes > 1)
    assert given.answer.network is not None
    assert given.answer.network.basis == "given"
    assert "fabric" not in given.answer.assumed


def test_filters_leave_what_they_say() -> None:
    def offers(**keys: Any) -> list[Any]:
        found = [row.offer for row in plan("llama-3.1-8b-lora", **keys).rows if row.offer]
        assert found, keys
        return found

    assert {offer.kind for offer in offers(kinds=["hyperscaler"])} == {"hyperscaler"}
    assert all(
        set(offer.countries) & {"FI", "SE", "NL", "DE", "FR", "ES", "CZ", "RO", "IT", "PL", "IE"}
        for offer in offers(countries=["EU"])
    )
    assert {offer.provider for offer in offers(certifications=["iso 27001"])} <= {"aws", "azure", "gcp"}
    assert {offer.region for offer in offers(regions=["us-*"])} <= {
        one.region for one in session().offers if one.region.startswith("us-")
    }
    without = offers(exclude=["peer-to-peer", "akash", "H100 SXM5 80GB"])
    assert not {"vast-ai", "akash"} & {offer.provider for offer in without}
    assert all(row.gpu != H100 or not row.offer for row in plan("llama-3.1-8b-lora", exclude=[H100]).rows)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("countries", ["Atlantis"], "is not a known country"),
        ("certifications", ["ISO 27002"], "'ISO 27001'?|is not a known certification"),
        ("exclude", ["vast"], "is not a known provider, kind, instance or GPU"),
        ("regions", ["moon-*"], "matches no region"),
        ("fabric", "string", "infiniband or ethernet or none"),
        ("kinds", ["clouds"], "hyperscaler"),
    ],
)
def test_names_nobody_knows_are_named(key: str, value: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        plan("llama-3.1-8b-lora", **{key: value})


def test_whole_nodes_are_paid_and_said() -> None:
    """Three B200 of GCP are one a4-highgpu-8g: 90.216 $/h."""
    row = next(row for row in plan("llama-3.1-70b-chat-service", providers=["gcp"]).rows if row.rank and "are paid" in row.why)
    assert row.offer is not None
    assert row.answer.layout is not None
    paid, used = row.offer.gpus * row.offer.instances, row.answer.layout.gpus
    assert paid > used
    assert f"{paid} GPUs are paid, {used} used" in row.why
    assert row.usd_per_h is not None
    price = offer_of(row).on_demand_usd_per_h
    assert price is not None
    assert row.usd_per_h.value == pytest.approx(price * row.offer.instances)


def test_workload_is_kept_as_it_was_asked() -> None:
    given = {"countries": ["EU"], "kinds": ["gpu-cloud"], "max_nodes": 4, "fabric": "ethernet", "exclude": ["T4"]}
    found = plan("llama-3.1-8b-lora", **given).task
    assert {name: found[name] for name in given} == given
    assert workload("llama-3.1-8b-lora", **given).max_nodes == 4


def test_a_slice_here_is_no_whole_gpu() -> None:
    """A model of 8B parameters in 16 bit needs more than the 9.75 GiB of a 1g.10gb; two slices serve it no better than one."""
    gpu = session().gpus.find("A100 80GB SXM 1g.10gb")
    supply = replace(session()._supply("spec"), machine=[gpu], local_counts={gpu.name: 2})

    def here(model: str) -> PlanRow:
        asked_for = session().workload(
            {"model": model, "task": "serve", "input_tokens": 500, "output_tokens": 100, "concurrency": 4}, "t"
        )
        found = make_plan(Task(asked_for, session().models_of(asked_for)), supply)
        return next(row for row in found.rows if row.here)

    assert not here("qwen3-8b").answer.fits
    small = here("qwen3-0.6b")
    assert small.answer.fits
    assert small.answer.layout is not None
    assert small.answer.layout.tp == 1


def test_a_capped_gpu_here_is_no_free_one() -> None:
    """At 200 of 350 W prompts take 1 / 0.58 of the time (llmgarage.ai's sweep of an RTX 3090); one measured here was capped then."""
    gpu = session().gpus.find("RTX 3090")
    supply = replace(session()._supply("spec"), machine=[gpu], local_counts={gpu.name: 1})
    asked_for = session().workload(
        {"model": "llama-3.2-3b", "task": "prefill", "input_tokens": 2000, "batch": 8, "gpus_considered": ["RTX 3090"]}, "t"
    )

    def here(one: Supply) -> PlanRow:
        return next(row for row in make_plan(Task(asked_for, session().models_of(asked_for)), one).rows if row.here)

    free, capped = here(supply), here(replace(supply, power_limits_w={gpu.name: 200.0}))
    assert free.answer.tokens_per_s is not None
    assert capped.answer.tokens_per_s is not None
    assert capped.answer.tokens_per_s.value / free.answer.tokens_per_s.value == pytest.approx(0.58, abs=0.06)
    assert (free.power_limit_w, capped.power_limit_w) == (None, 200.0)
    assert "limited to 200 W" in capped.why
    rented = next(row for row in make_plan(Task(asked_for, session().models_of(asked_for)), supply).rows if row.offer)
    assert rented.answer.tokens_per_s == free.answer.tokens_per_s


def test_what_nobody_says_of_an_offer_of_ones_own_is_assumed_and_told() -> None:
    own = Offer(
        provider="mine",
        instance="box",
        gpu=H100,
        gpus=8,
        nvlink=True,
        region="here",
        on_demand_usd_per_h=8.0,
        as_of="2026",
        source="s",
    )
    joined = msgspec.structs.replace(
        own, instance="rack", fabric="InfiniBand", node_bytes_per_s=400e9, most_nodes=4, on_demand_usd_per_h=9.0
    )
    asked_for = session().workload(
        TRAINED | {"max_gpus": 64, "gpus_considered": [H100], "providers": ["mine"], "objective": "fastest"}, "t"
    )

    def largest(offer: Offer) -> PlanRow:
        supply = replace(session()._supply("spec"), offers=[offer], machine=[])
        rows = make_plan(Task(asked_for, session().models_of(asked_for)), supply).rows
        return max((row for row in rows if row.rank), key=lambda row: row.offer.instances if row.offer else 0)

    unknown, known = largest(own), largest(joined)
    assert unknown.answer.network is not None
    assert unknown.answer.network.basis == "assumed"
    assert {"fabric", "max_nodes"} <= set(unknown.answer.assumed)
    assert str(network_text(unknown)).startswith("InfiniBand ")
    assert "(assumed)" in str(network_text(unknown))
    assert known.answer.network is not None
    assert (known.answer.network.basis, known.answer.network.bytes_per_s) == ("published", 50e9)
    assert known.offer is not None
    assert known.offer.instances == 4
    assert "max_nodes" not in known.answer.assumed


@pytest.mark.parametrize(
    "filters",
    [{"countries": ["DE"], "objective": "fastest"}, {"market": "reserved-1y", "kinds": ["hyperscaler"]}, {"exclude": ["B200 SXM"]}],
    ids=" ".join,
)
def test_what_no_offer_that_passes_has_is_no_solution(filters: dict[str, Any]) -> None:
    found = asked(
        {"model": "qwen3-8b", "task": "serve", "request_rate_per_s": 2.0, "input_tokens": 500, "output_tokens": 100} | filters
    )
    assert found.rows[0].offer is not None
    for row in found.rows:
        assert not row.rank or row.offer or row.here, row.gpu
    left_out = {row.gpu for row in found.rows if "no offer passes the filters" in row.why}
    assert "GB300" in left_out, "nobody rents it out"
    assert ("B200 SXM" in left_out) >= ("exclude" in filters)


def test_filters_that_nothing_passes_are_named() -> None:
    found = asked({"model": "qwen3-8b", "task": "serve", "market": "reserved-3y", "countries": ["DE"]})
    assert not any(row.offer for row in found.rows)
    assert "no offer passes the filters (market reserved-3y; countries DE)" in found.notes[0]


@pytest.mark.parametrize("objective", ["cheapest", "fastest", "fewest-gpus"])
def test_parts_that_nobody_rents_out_come_last(objective: str) -> None:
    service = {"model": "qwen3-8b", "task": "serve", "request_rate_per_s": 2.0, "input_tokens": 500, "output_tokens": 100}
    rows = [row for row in asked(service | {"objective": objective}).rows if row.verdict == "fits"]
    out_of_reach = [row.usd_per_h is None and not row.here for row in rows]
    assert not out_of_reach[0]
    assert any(out_of_reach)
    assert out_of_reach == sorted(out_of_reach)
    assert all("last" in row.why for row, last in zip(rows, out_of_reach, strict=True) if last)


def test_a_whole_computer_is_alone_in_its_node() -> None:
    bought = asked(
        {"model": "qwen3-8b", "task": "serve", "request_rate_per_s": 2.0, "capex_usd": 5e4, "gpus_considered": ["GB10 (DGX Spark)"]}
    )
    layouts = [row.answer.layout for row in bought.rows if row.owned is not None]
    assert layouts
    assert all(layout is not None and layout.gpus_per_node == 1 for layout in layouts)


def test_pods_and_instances_of_any_size_say_how_many_gpus_they_have() -> None:
    row = asked({"model": "llama-3.1-70b", "task": "generate", "providers": ["runpod"], "gpus_considered": ["A100 80GB SXM"]}).rows[
        0
    ]
    assert row.offer is not None
    assert row.offer.gpus > 1
    sold = offer_of(row)
    assert sold.gpus == 1, "priced per GPU"
    assert sold.memory_bytes
    assert (row.offer.vcpus, row.offer.memory_bytes) == (row.offer.gpus * (sold.vcpus or 0), row.offer.gpus * sold.memory_bytes)
    assert f"runpod ({row.offer.kind}) {row.offer.instance} with {row.offer.gpus} GPUs, " in offer_sentence(row.offer)
