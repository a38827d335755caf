"""The answer in a sentence, the language of filters, and what a trial changes."""

from __future__ import annotations

import msgspec
import pytest
from engine_sample import session
from tui_sample import sample_plan

from planner.engine.answers.figure import Figure
from planner.engine.answers.plan import Plan
from planner.present.choice.certainty import simulated_rows, standing
from planner.present.choice.chosen import preset_values
from planner.present.choice.facets import FacetNames, read_facets
from planner.present.choice.ranked_by import ranked_by
from planner.present.choice.sentence import answer_sentence, choice_text, doubt, replicas_words
from planner.present.choice.trial import Alternative, Effect, Trial, alternatives, difference, effect_of
from planner.workload.presets import read_workload

NAMES = FacetNames(
    {
        "L4": "L4",
        "L4 24GB": "L4",
        "L40": "L40",
        "L40S": "L40S",
        "H100": "H100 SXM5 80GB",
        "H100 PCIe": "H100 PCIe",
        "GB10": "GB10 (DGX Spark)",
    },
    ("aws", "azure", "vast-ai"),
    ("us-east-1", "us-east-2", "eu-west-1"),
    vendors={"nvidia": ["L4", "L40", "H100 SXM5 80GB", "H100 PCIe"]},
)


def planned(**changes: object) -> Plan:
    fields = {"model": "llama-3.1-70b", "task": "serve", "request_rate_per_s": 16.7, "targets": {"p95_request_s": 5.0}, **changes}
    plan = sample_plan(read_workload(fields, ""), "measured")
    endless = [msgspec.structs.replace(row, job_h=None, job_usd=None) for row in plan.rows]
    return msgspec.structs.replace(plan, rows=endless)


def without_solutions(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, rows=[row for row in plan.rows if row.rank is None])


def test_the_sentence_says_what_to_rent_how_sure_and_what_comes_next() -> None:
    plan = planned()
    first = msgspec.structs.replace(plan.rows[0], probability_meets=0.94)
    told = answer_sentence(msgspec.structs.replace(plan, rows=[first, *plan.rows[1:]]))
    assert told.solved
    assert (
        told.text
        == "Rent 4 × H200 SXM 141GB at runpod, 9,020 $/month · p95 3.90 s of 5.00 s (94 % sure) · next: 8 × H100 SXM5 80GB, +32 %"
    )
    assert told.within(50) == ("Rent 4 × H200 SXM 141GB at runpod, 9,020 $/month",)


def test_the_number_of_replicas_is_told_with_the_limits_that_it_keeps() -> None:
    """For a solution under a rate; clients that wait for their answers need no number of replicas."""
    plan = planned(targets={"p95_request_s": 5.0, "p99_ttft_s": 2.0})
    row = plan.rows[0]
    limit = "to keep p95 of the whole request within 5.00 s (here 3.90 s)"
    assert replicas_words(row, plan.task) == f"2 replicas, as many as the load needs {limit}"
    assert row.answer.layout is not None
    layout = msgspec.structs.replace(row.answer.layout, tp=2, ep=8, dp=8)
    shared = msgspec.structs.replace(row, answer=msgspec.structs.replace(row.answer, layout=layout))
    assert replicas_words(shared, plan.task) == f"2 groups of 4 replicas that share experts, as many as the load needs {limit}"
    open_task = {key: value for key, value in plan.task.items() if key != "targets"}
    assert replicas_words(row, open_task) == "2 replicas, as many as the load needs"
    assert not replicas_words(row, {key: value for key, value in plan.task.items() if key != "request_rate_per_s"})
    assert not replicas_words(msgspec.structs.replace(row, rank=None), plan.task)


def test_a_job_is_held_against_its_deadline_with_failures() -> None:
    """The job's time includes failures, like the verdict's: a row said 419 of 120 days beside a reason of 435."""
    plan = planned(task="train", targets={"deadline_h": 2880.0})
    first = msgspec.structs.replace(plan.rows[0], job_h=Figure.exact(2400.0), job_usd=Figure.exact(1e6), probability_meets=0.96)
    late = msgspec.structs.replace(first, expected_job_h=Figure.exact(2500.0))
    for row, told in ((first, "100 d of 120 d (96 % sure)"), (late, "104 d of 120 d with failures (96 % sure)")):
        assert told in answer_sentence(msgspec.structs.replace(plan, rows=[row])).text


def test_the_answer_says_where_an_offer_is_spot_and_more_is_paid_than_works() -> None:
    first = planned().rows[0]
    assert first.offer is not None
    spot = msgspec.structs.replace(first, offer=msgspec.structs.replace(first.offer, market="spot"))
    assert choice_text(spot) == "Rent 4 × H200 SXM 141GB at runpod spot, 9,020 $/month"
    nodes = msgspec.structs.replace(first, offer=msgspec.structs.replace(first.offer, gpus=8, instances=1))
    assert choice_text(nodes) == "Rent 4 × H200 SXM 141GB (8 paid) at runpod, 9,020 $/month"


def test_a_first_row_that_is_not_sure_has_the_best_sure_one_beside_it() -> None:
    plan = planned()
    first, second = (
        msgspec.structs.replace(row, probability_meets=chance) for row, chance in zip(plan.rows, (0.61, 0.93), strict=False)
    )
    told = answer_sentence(msgspec.structs.replace(plan, rows=[first, second, *plan.rows[2:]]))
    assert told.parts[1:3] == ("p95 3.90 s of 5.00 s (61 % sure)", "over 90 % sure: 8 × H100 SXM5 80GB, +32 %")
    elsewhere = msgspec.structs.replace(second, rank=3)
    once = answer_sentence(
        msgspec.structs.replace(plan, rows=[first, msgspec.structs.replace(second, probability_meets=0.7), elsewhere])
    )
    assert once.parts[2:] == ("over 90 % sure: 8 × H100 SXM5 80GB, +32 %",), "the next one reads the same, and is not said again"
    unsure = [msgspec.structs.replace(row, probability_meets=0.61) for row in plan.rows]
    nobody = msgspec.structs.replace(plan, rows=unsure)
    assert "sure:" not in answer_sentence(nobody).text
    assert doubt(nobody) == "chance that 1 fits and meets every target: 61 %; no row is over 90 % sure"
    assert doubt(without_solutions(plan)) == ""


def test_a_chance_that_reads_as_sure_has_no_surer_row_beside_it() -> None:
    """'90 % sure · over 90 % sure: another' stood there for 89.7 %."""
    plan = planned()
    for chance, names in ((0.897, False), (0.894, True)):
        first = msgspec.structs.replace(plan.rows[0], probability_meets=chance)
        second = msgspec.structs.replace(plan.rows[1], probability_meets=0.96)
        rows = msgspec.structs.replace(plan, rows=[first, second, *plan.rows[2:]])
        assert ("over 90 % sure" in answer_sentence(rows).text) is names
        assert bool(doubt(rows)) is names


def test_a_narrow_line_keeps_the_chance_and_the_surer_row_before_the_latency() -> None:
    plan = planned()
    rows = [msgspec.structs.replace(row, probability_meets=chance) for row, chance in zip(plan.rows, (0.61, 0.93), strict=False)]
    told = answer_sentence(msgspec.structs.replace(plan, rows=rows))
    assert told.within(400) == told.parts
    assert told.within(89) == (told.parts[0], "61 % sure", "surer: 8 × H100 SXM5 80GB")
    brief = ("Rent 4 × H200 SXM 141GB, 9,020 $/month", "61 % sure", "surer: 8 × H100 SXM5 80GB")
    assert told.within(84) == told.within(78) == brief, "the provider, which its row has, goes before the surer row"
    assert told.within(76) == (told.parts[0], "61 % sure")
    assert told.within(50) == told.parts[:1]
    sure = answer_sentence(msgspec.structs.replace(plan, rows=[msgspec.structs.replace(rows[0], probability_meets=0.95), rows[1]]))
    assert sure.within(84)[1:] == ("p95 3.90 s of 5.00 s (95 % sure)",)
    assert sure.within(75)[1:] == ("95 % sure",), "the latency goes, the chance stays"


@pytest.mark.parametrize(
    ("load", "each"),
    [({"concurrency": 20}, " a token"), ({"request_rate_per_s": 2.0}, ""), ({"concurrency": 20, "requests": 5000}, "")],
)
def test_a_comparison_names_its_unit_where_the_dollars_beside_it_are_of_another(load: dict[str, object], each: str) -> None:
    """Clients in flight are ranked by the dollars of a token, and the cost shown first is a month's."""
    asked = {"model": "qwen3-14b", "task": "serve", "input_tokens": 512, "output_tokens": 200} | load
    plan = session().plan(read_workload(asked, ""))
    cheapest, second = (row for row in plan.rows if row.rank in {1, 2})
    assert cheapest.why.split("; ")[0] == f"cheapest{each}"
    assert second.why.split("; ")[0].endswith((f"dearer{each}", f"(cheapest{each})"))
    assert (" a token" in answer_sentence(plan).parts[-1]) == bool(each)
    assert f"really cheaper{each}:" in standing(plan)


def test_a_plan_says_which_of_its_rows_were_simulated() -> None:
    asked = {"model": "qwen3-8b", "task": "serve", "request_rate_per_s": 5.0, "targets": {"p95_request_s": 20.0}}
    plan = session().plan(read_workload(asked, ""), levers=False)
    words = simulated_rows(plan)
    named = {int(rank) for rank in words.removeprefix("simulated: ").partition(";")[0].split(", ")}
    assert named == {
        row.rank for row in plan.rows if row.rank and row.answer.assumed.get("percentiles", "").startswith("simulated")
    }
    assert 1 in named
    assert simulated_rows(msgspec.structs.replace(plan, rows=plan.rows[:1])) == "", "nothing to tell apart"


def test_the_answer_is_of_the_rows_that_pass_the_filter() -> None:
    plan = planned()
    assert answer_sentence(plan, lambda row: row.gpu == "H100 SXM5 80GB").parts[0].startswith("Rent 8 × H100 SXM5 80GB")
    none = answer_sentence(plan, lambda _: False)
    assert (none.solved, none.parts[0][:6], none.parts[0][-18:]) == (False, "No row", " passes the filter")


def test_where_nothing_fits_the_sentence_names_the_first_help() -> None:
    plan = without_solutions(planned())
    told = answer_sentence(plan)
    assert not told.solved
    assert told.parts[0] == "None of 1,312 candidates meets every target"
    told = answer_sentence(msgspec.structs.replace(plan, counts=msgspec.structs.replace(plan.counts, fit=0)))
    assert told.text.startswith("None of 1,312 candidates fits · first help: int4 weights fit on an RTX 4090 · nearest, 4 × A100")


def test_where_nothing_can_run_the_sentence_says_what_was_asked_for_and_why() -> None:
    """One GPU was asked for, which has no instructions for the weights."""
    plan = planned()
    counts = msgspec.structs.replace(plan.counts, considered=0, fit=0)
    impossible = msgspec.structs.replace(plan.rows[-1], answer=msgspec.structs.replace(plan.rows[-1].answer, layout=None))
    only = msgspec.structs.replace(plan, rows=[impossible], counts=counts, levers=[], task={**plan.task, "gpus_considered": ["T4"]})
    assert answer_sentence(only).text == f"No T4 can run this · {impossible.why}"
    assert answer_sentence(msgspec.structs.replace(only, rows=[], task={})).text == "No GPU can run this"


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("l4 h1 aw sp", {"gpus_considered": ["L4", "H100 SXM5 80GB", "H100 PCIe"], "providers": ["aws"], "market": "spot"}),
        ("L4", {"gpus_considered": ["L4"]}),
        ("gpu:l4,h100 provider:vastai", {"gpus_considered": ["L4", "H100 SXM5 80GB", "H100 PCIe"], "providers": ["vast-ai"]}),
        ("l4,h100-pcie", {"gpus_considered": ["L4", "H100 PCIe"]}),
        ("L4 or L40 on aws", {"gpus_considered": ["L4", "L40"], "providers": ["aws"]}),
        ("not aws", {"providers": ["azure", "vast-ai"]}),
        ("-aws 1 gpu", {"providers": ["azure", "vast-ai"], "max_gpus": 1}),
        ("nvidia not h100", {"gpus_considered": ["L4", "L40"]}),
        ("gpu:40", {"gpus_considered": ["L40", "L40S"]}),
        ("!aws", {"providers": ["azure", "vast-ai"]}),
        ("spark", {"gpus_considered": ["GB10 (DGX Spark)"]}),
        ("gpus<=8", {"max_gpus": 8}),
        ("gpus<8", {"max_gpus": 7}),
        ("l bandwidth fits", {}),
        ("region:us-east", {"regions": ["us-east-1", "us-east-2"]}),
        ("region:eu-* country:de,FR", {"regions": ["eu-*"], "countries": ["DE", "FR"]}),
        ("link:infini kind:gpu-cloud", {"fabric": "infiniband", "kinds": ["gpu-cloud"]}),
        ("marketplace", {"kinds": ["marketplace"]}),
        ("!marketplace !aws", {"providers": ["azure", "vast-ai"], "exclude": ["marketplace"]}),
    ],
)
def test_words_find_their_kind_exact_names_first(text: str, changes: dict[str, object]) -> None:
    found = read_facets(text, NAMES)
    assert found.changes == changes
    assert not found.problems


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("rtx", ["RTX 4090"]),
        ("gpu:30", ["RTX 3060 12GB"]),
        ("nvidia-geforce-rtx-3060-12gb", ["RTX 3060 12GB"]),
        ("!l4", ["RTX 4090"]),
    ],
)
def test_parts_that_nobody_rents_out_are_selected_where_nothing_else_is_meant(text: str, gpus: list[str]) -> None:
    names = FacetNames({name: name for name in ("L4", "RTX 4090", "RTX 3060 12GB")}, only_named=frozenset({"RTX 3060 12GB"}))
    assert read_facets(text, names).changes == {"gpus_considered": gpus}


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("$/h<12", ["B200 180GB"]),
        ("memory>90 fits", ["H100 SXM5 80GB"]),
        ("bandwidth runpod", ["H200 SXM 141GB"]),
        ("here", ["H200 SXM 141GB"]),
        ("$/month<9.1k $/month>9k", ["H200 SXM 141GB"]),
    ],
)
def test_comparisons_and_words_test_the_rows(text: str, gpus: list[str]) -> None:
    found = read_facets(text, FacetNames())
    rows = [row for row in planned().rows if row.rank or "fits" not in text]
    assert [row.gpu for row in rows if row.rank and found.keeps(row)] == gpus


@pytest.mark.parametrize(
    ("text", "said"),
    [("gpu:L44", "no gpu is called 'L44'"), ("cost<5", "'cost' is not a figure"), ("aws !aws", "no provider is left")],
)
def test_what_cannot_be_used_is_said(text: str, said: str) -> None:
    assert said in read_facets(text, NAMES).problems[0]


def test_what_the_workload_leaves_out_stays_left_out() -> None:
    assert read_facets("!marketplace", NAMES).over({"exclude": ["aws"]}) == {"exclude": ["aws", "marketplace"]}
    assert read_facets("l4", NAMES).over({"exclude": ["aws"]})["exclude"] == ["aws"]
    assert "exclude" not in read_facets("l4", NAMES).over({})


def test_a_trial_tells_the_difference_it_makes() -> None:
    plan = planned()
    assert Trial("spot prices", plan, "8,730 → 10,800 $/month (+24 %)").short_text == "spot prices (+24 %)"
    assert Trial("spot prices", plan, "nothing fits any more").short_text == "spot prices"
    dearer = [msgspec.structs.replace(row, usd_per_month=row.usd_per_month and row.usd_per_month.scaled(1.5)) for row in plan.rows]
    assert difference(plan, msgspec.structs.replace(plan, rows=dearer)) == "9,020 → 13,500 $/month (+50 %)"
    assert difference(without_solutions(plan), plan) == "now 4 × H200 SXM 141GB fits"
    assert difference(plan, without_solutions(plan)) == "nothing fits any more"


def test_changes_stand_by_what_they_save_and_those_that_only_cost_more_are_left_out() -> None:
    plan = planned()
    changes = {
        "dearer": (1.5, False),
        "cheap": (0.5, False),
        "alike": (1.0, False),
        "more work": (2.0, True),
        "cheaper": (0.9, False),
    }
    found = {}
    for words, (factor, other_work) in changes.items():
        rows = [
            msgspec.structs.replace(row, usd_per_month=row.usd_per_month and row.usd_per_month.scaled(factor)) for row in plan.rows
        ]
        found[words] = Alternative(words, {}, other_work), effect_of(plan, msgspec.structs.replace(plan, rows=rows))
    lost = Alternative("lost", {}), effect_of(plan, without_solutions(plan))
    named = [one for one in (lost, *found.values()) if one[1].is_worth_naming(one[0], plan.task)]
    named.sort(key=lambda one: one[1].order(one[0]))
    assert [one.words for one, _ in named] == ["cheap", "cheaper", "alike", "more work", "lost"]
    dearer, effect = found["dearer"]
    assert effect.is_worth_naming(dearer, {"objective": "fastest"}), "what costs more may be faster"
    assert Effect("unknown").is_worth_naming(dearer, {})


def test_a_job_that_ends_is_not_reserved_for_a_year_and_adapters_are_tried_on_4_bit_weights() -> None:
    lora = {"task": "finetune", "model": "qwen3-14b", "lora": {"rank": 16}, "train_tokens": 5e7}
    assert {"lora.base": "nf4"} in [one.change for one in alternatives(lora)]
    assert {"market": "reserved-1y"} not in [one.change for one in alternatives(lora)]
    assert {"market": "reserved-1y"} in [one.change for one in alternatives({"task": "serve", "request_rate_per_s": 2.0})]
    assert {"lora.base": "nf4"} not in [one.change for one in alternatives(lora | {"lora": {"rank": 16, "base": "nf4"}})]


@pytest.mark.parametrize("task", ["serve", "generate", "train", "prefill"])
def test_every_alternative_is_a_workload_that_can_be_read(task: str) -> None:
    fields = (
        {"model": "llama-3.1-70b", "task": task, "weight_dtype": "fp8"}
        if task != "train"
        else {"model": "llama-3.1-70b", "task": task}
    )
    found = alternatives({**fields, "targets": {}})
    assert len({one.words for one in found}) == len(found) >= 2
    for one in found:
        plain = {key: value for key, value in one.change.items() if "." not in key}
        read = msgspec.to_builtins(read_workload({**fields, **plain}, one.words))
        assert {key: read[key] for key in plain if plain[key] is not None} == {
            key: value for key, value in plain.items() if value is not None
        }


def test_the_figure_that_ranks_follows_the_objective() -> None:
    assert ranked_by(planned()).id == "usd-per-month"
    assert ranked_by(planned(objective="fastest")).id == "latency"
    assert ranked_by(planned(objective="fewest-gpus")).id == "gpus"
    assert ranked_by(planned(objective="flop-per-usd")).id == "usd-per-million"


def test_what_is_bought_or_there_already_is_not_rented() -> None:
    fields = {"model": "qwen3-8b", "task": "serve", "concurrency": 16, "input_tokens": 500, "output_tokens": 200}
    own = session().workload(fields | {"own": [{"gpu": "L40S"}], "gpus_considered": ["L40S"]}, "test")
    buy = session().workload(fields | {"capex_usd": 20_000.0, "gpus_considered": ["L40S"]}, "test")
    # 8,500 $ ÷ 26,280 h + 0.35 kW · 0.15 $/kWh = 0.376 $/h, 730 h of it 274 $
    assert choice_text(next(row for row in session().plan(own).rows if row.owned)) == "Use 1 × L40S, your own, 274 $/month"
    assert choice_text(next(row for row in session().plan(buy).rows if row.owned)) == (
        "Buy 1 × L40S for 8,500 $, 274 $/month including depreciation"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x:1", "there is no filter 'x'; gpu, provider, kind, region, country, market, network, link are"),
        ("$/h<a", "'$/h<a' compares with no number"),
        ("sure>", "'sure>' compares with no number"),
        ("colour<3", "'colour' is not a figure"),
    ],
)
def test_a_filter_that_is_none_says_what_there_is(text: str, problem: str) -> None:
    found = read_facets(text, NAMES)
    assert not found.chips
    assert len(found.problems) == 1
    assert found.problems[0].startswith(problem)


def test_a_vendor_is_one_chip() -> None:
    assert read_facets("nvidia !h100", NAMES).chips == ("gpu nvidia", "no H100 SXM5 80GB", "no H100 PCIe")


def test_what_stays_of_a_preset_is_what_was_not_given_beside_it() -> None:
    fields = {"input_tokens": 600, "output_tokens": 50, "lora": None, "targets": {"burst": 0.2, "budget_usd": None}, "kinds": ["x"]}
    assert preset_values(fields, ["output_tokens"]) == {"input_tokens": 600, "targets.burst": 0.2}
