"""The guided way: two decision trees worked by hand, and the terms that each leads to."""

from __future__ import annotations

import msgspec
import pytest

from planner.engine.advice.observation import Observed
from planner.engine.answers.plan import SURE
from planner.engine.procurement.guide import Answers, Guide, chosen_plan
from planner.session import Session
from planner.units import bytes_text
from planner.workload.hardware.owned import Own

GIB = 2**30
TRAINING = Answers(
    task="train", model="llama-2-13b", train_tokens=26e9, sequence=4096, deadline_h=720, months=3, gpus=["H100 SXM5 80GB"]
)
SERVING = Answers(
    task="serve", model="llama-3.1-70b", daily_users=4320, input_tokens=800, output_tokens=250, p95_ttft_s=3.0, months=36,
    gpus=["L40S", "H100 SXM5 80GB"],
)  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Session:
    return Session.open()


def _tree(guide: Guide) -> dict[str, str]:
    return {branch.question: branch.answer for branch in guide.tree}


def test_the_tree_of_training_with_its_reasons(session: Session) -> None:
    """13.0e9 parameters · 18 bytes (2 weights, 4 gradients, 4 master, 8 moments) = 218 GiB: more than one H100, less than eight."""
    guide = session.guide(TRAINING).guide
    tree = _tree(guide)
    assert tree["Are all parameters trained?"] == "yes"
    assert tree["Do the states fit one GPU?"] == "no"
    assert tree["Do they fit one node?"] == "yes"
    states = 13.016e9 * 18 / GIB
    reason = next(branch.reason for branch in guide.tree if branch.question == "Do the states fit one GPU?")
    assert float(reason.split(" GiB")[0]) == pytest.approx(states, rel=0.01)
    assert tree["May it be interrupted?"] == "yes", "a job may, where nothing is said"
    assert [step.name for step in guide.steps] == ["profile", "bottleneck", "right-size", "where", "commit"]
    assert all(step.reasons for step in guide.steps)
    adapters = _tree(session.guide(msgspec.structs.replace(TRAINING, task="finetune", lora=True)).guide)
    assert adapters["Are all parameters trained?"] == "no"
    assert adapters["Do the states fit one GPU?"] == "yes", "26 GB of weights and no states beside them"


def test_the_tree_of_inference_with_its_reasons(session: Session) -> None:
    """70.6e9 parameters: 131 GiB in 16 bits, 67 GiB in FP8, which an H100 holds; 4,320 people · 30 messages a day are 1.5 a second."""
    guide = session.guide(SERVING).guide
    tree = _tree(guide)
    assert tree["Do the weights fit one GPU in 16 bits?"] == "no"
    weights = next(branch.reason for branch in guide.tree if branch.question == "Do the weights fit one GPU in 16 bits?")
    assert float(weights.split("bf16 ")[1].split(" GiB")[0]) == pytest.approx(70.55e9 * 2 / GIB, rel=0.01)
    assert tree["Is the ttft limit kept?"] == "yes"
    assert tree["May it be interrupted?"] == "no", "a service may not, where nothing is said"
    assert guide.market != "spot"
    profile = guide.steps[0]
    assert any("1.50 requests a second" in reason for reason in profile.reasons)
    assert guide.row is not None
    used = session.guide(msgspec.structs.replace(SERVING, use=0.1)).guide
    assert used.market == "on-demand", "a tenth of the time pays for no commitment"


def test_the_guide_says_what_may_be_used_and_how_sure_its_choice_is(session: Session) -> None:
    """It called the whole memory usable, and chose a row that met its target in one case of two without a word."""
    answers = Answers(
        task="serve", model="qwen3-32b", weight_dtype="fp8", daily_users=50, p95_request_s=5.0, gpus=["A100 80GB SXM"]
    )
    guide = session.guide(answers).guide
    assert guide.row is not None
    assert guide.row.answer.memory_bytes is not None
    usable = bytes_text(guide.row.answer.memory_bytes.usable)
    reason = next(branch.reason for branch in guide.tree if branch.question == "Do the weights fit one GPU in 16 bits?")
    assert reason.endswith(f"{usable} usable on one A100 80GB SXM")
    chance = guide.row.probability_meets
    assert chance is not None
    told = [reason for reason in guide.steps[2].reasons if " sure to fit and to meet every target" in reason]
    assert len(told) == (chance < SURE)
    assert not told or told[0].startswith(f"{chance:.0%}".replace("%", " %"))


def test_spot_is_taken_where_it_saves_a_tenth_and_the_work_may_stop(session: Session) -> None:
    free, fixed = (session.guide(msgspec.structs.replace(TRAINING, interruptible=may)) for may in (True, False))
    assert fixed.guide.row is not None
    assert fixed.guide.row.offer is not None
    assert fixed.guide.row.offer.market == "on-demand"
    assert free.guide.row is not None
    assert free.guide.row.job_usd is not None
    assert fixed.guide.row.job_usd is not None
    if free.guide.row.offer is not None and free.guide.row.offer.market == "spot":
        assert free.guide.row.job_usd.value <= 0.9 * fixed.guide.row.job_usd.value
        assert any("checkpoints" in reason for step in free.guide.steps for reason in step.reasons)


def test_spot_that_is_no_cheaper_saves_nothing(session: Session) -> None:
    """It said 'spot would save 0 %'."""
    plan = session.plan(session.workload(TRAINING.fields()), levers=False)
    assert chosen_plan(TRAINING, plan, plan).reasons == ["spot costs no less: not worth interruptions"]


def test_what_was_watched_goes_before_what_is_worked_out(session: Session) -> None:
    seen = Observed(
        gpu="H100 SXM5 80GB", seconds=60.0, readings=60, busy=1.0, sm_active=0.3, dram_bandwidth=0.92, tensor_active=0.05
    )
    guide = session.guide(SERVING, [seen]).guide
    assert guide.steps[0].answer.startswith("Watched here")
    assert "as observed" in guide.steps[1].answer
    assert any("DRAM traffic 92 %" in reason for reason in guide.steps[1].reasons)


def test_nothing_that_fits_ends_the_way(session: Session) -> None:
    guide = session.guide(Answers(task="train", model="llama-3.1-405b", sequence=8192, gpus=["T4"], train_tokens=1e9)).guide
    assert guide.row is None
    assert guide.steps[-1].answer == "Nothing fits."
    assert guide.steps[-1].reasons


@pytest.mark.parametrize(("use", "said"), [(0.7, "Buy."), (0.1, "Take on-demand: ")])
def test_what_a_capital_buys_is_held_against_renting(session: Session, use: float, said: str) -> None:
    """A purchase that saves most at full use costs more than renting where it stands idle nine hours of ten."""
    answers = msgspec.structs.replace(SERVING, daily_users=50_000, capex_usd=2e6, use=use, gpus=["H100 SXM5 80GB"])
    guide = session.guide(answers).guide
    steps = {step.name: step for step in guide.steps}
    assert steps["where"].answer == "Bought."
    assert steps["commit"].answer.startswith(said)
    assert {"bought", "on-demand"} <= {reason.split(":")[0] for reason in steps["commit"].reasons}


def _reasons(guide: Guide, name: str) -> list[str]:
    return next(step.reasons for step in guide.steps if step.name == name)


@pytest.mark.sweep
def test_many_requests_of_a_job_are_answered_at_once(session: Session) -> None:
    """10^6 requests of 1,000 and 200 tokens take weeks one after another, and hours as many at once as fit."""
    answers = Answers(
        task="generate", model="qwen3-8b", requests=1e6, input_tokens=1000, output_tokens=200, deadline_h=48,
        gpus=["H100 SXM5 80GB", "L40S"],
    )  # fmt: skip
    guide = session.guide(answers).guide
    assert guide.row is not None
    assert guide.row.job_h is not None
    assert 3 < guide.row.job_h.value < 48
    assert _tree(guide)["May it be interrupted?"] == "yes", "it is a job, whatever engine answers it"
    alone = msgspec.structs.replace(answers, also={"concurrency": 1})
    assert alone.fields()["task"] == "generate"
    nothing = session.guide(alone).guide
    assert nothing.row is None
    assert nothing.steps[-1].answer == "Nothing keeps the limits.", "it fits, and is late"


def test_ways_name_gpus_beyond_those_needed_and_what_is_owed(session: Session) -> None:
    """One A100 80GB is committed to at AWS with the seven others of a p4de.24xlarge: for two years of 1y, and for a 3y beyond them."""
    answers = Answers(
        task="serve",
        model="llama-3.1-8b",
        request_rate_per_s=5,
        input_tokens=800,
        output_tokens=200,
        months=24,
        gpus=["A100 80GB SXM"],
    )
    guide = session.guide(answers).guide
    assert guide.costs is not None
    eight = next(one.way for one in guide.costs.ways if "p4de.24xlarge" in one.way.who)
    assert eight.idle_gpus == 8 - guide.costs.gpus
    said = _reasons(guide, "commit")
    assert any("p4de.24xlarge, 7 GPUs idle" in reason for reason in said)
    assert any(reason.startswith("reserved-3y") and "owed for 36 months" in reason for reason in said)
    assert not any(reason.startswith("spot") for reason in said), "a service may not be interrupted"
    for branch in guide.tree:
        if branch.question.startswith("Is it used enough for"):
            way = next(one for one in guide.costs.ways if one.way.name == branch.question.rstrip("?").split()[-1])
            assert (branch.answer == "yes") == (way.usd_after_months["24"] < guide.costs.ways[0].usd_after_months["24"])


def test_own_machines_that_do_not_do_are_named(session: Session) -> None:
    own = Own(gpu="RTX 4090", count=2)
    answers = Answers(
        task="finetune",
        model="qwen3-32b",
        lora=True,
        train_tokens=1e8,
        sequence=2048,
        own=[own],
        gpus=["H100 SXM5 80GB", "RTX 4090"],
    )
    where = _reasons(session.guide(answers).guide, "where")
    assert any(reason.startswith("not on your own 2 × RTX 4090: does not fit") for reason in where)
