"""What a plan ranks first as a job: its layout is what the job starts, and what no form can say is refused with the reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from engine_sample import session
from job_sample import block, documents, shell_of, understood
from repository import RunPlanner

from planner.cli.emit import Form
from planner.cli.emit.running import written
from planner.cli.emit.services import SERVICES, Service
from planner.engine.answers.plan import PlanRow
from planner.engine.job.engines import find_engine
from planner.errors import UserError
from planner.schema import faults
from planner.workload.tasks import Lengths, Lora

SERVICE, TRAINING = "llama-3.1-70b-chat-service", "llama-3.1-8b-pretrain"
HUB = "meta-llama/Llama-3.1-70B"


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., list[str]]:
    return shell_of(tmp_path)


def first(preset: str, gpu: str, layout: dict[str, Any], **changes: Any) -> tuple[PlanRow, Any, Any]:
    """(row, job, part): the first row of a plan on `gpu`, with another layout."""
    asked = msgspec.structs.replace(session().presets.load(preset).workload, gpus_considered=(gpu,), **changes)
    plan = session().plan(asked, basis="spec", levers=False)
    row = plan.rows[0]
    assert row.answer.layout is not None
    changed = msgspec.structs.replace(row.answer, layout=msgspec.structs.replace(row.answer.layout, **layout))
    row = msgspec.structs.replace(row, rank=1, answer=changed)
    return row, session().job(asked, row), session().gpus.find(gpu)


def service(form: Form, layout: dict[str, Any], *, gpu: str = "H100 SXM5 80GB", hub: str = HUB, **changes: Any) -> str:
    row, job, part = first(SERVICE, gpu, {"ep": 1, "prefill_replicas": 0} | layout, **changes)
    return written(form, SERVICE, row, job, part, hub)


ONE = {"gpus": 4, "nodes": 1, "gpus_per_node": 8, "tp": 4, "pp": 1, "dp": 1}
ACROSS = {"gpus": 16, "nodes": 2, "gpus_per_node": 8, "tp": 8, "pp": 2, "dp": 1}
MANY = {"gpus": 24, "nodes": 3, "gpus_per_node": 8, "tp": 4, "pp": 1, "dp": 6}


def words_of(call: str) -> dict[str, str]:
    """Options of a call of vLLM."""
    name, verb, model, *rest = call.split()
    assert (name, verb) == ("vllm", "serve")
    found = dict(zip(rest, [*rest[1:], ""], strict=True))
    return {"model": model} | {key: "" if value.startswith("--") else value for key, value in found.items() if key.startswith("--")}


@pytest.mark.parametrize("form", ["sky", "slurm", "kubernetes"])
@pytest.mark.torch_inside
def test_training_over_nodes_is_started_by_torchrun_on_each(form: Form, shell: Callable[..., list[str]], tmp_path: Path) -> None:
    layout = {"gpus": 32, "nodes": 4, "gpus_per_node": 8, "tp": 2, "pp": 1, "dp": 16, "sharding": "zero3", "micro_batch": 2}
    row, job, gpu = first(TRAINING, "H100 SXM5 80GB", layout)
    text = written(form, "my plan (70B)", row, job, gpu, "")
    calls: list[str] = []
    if form == "sky":
        assert re.search(r"^num_nodes: 4$", text, re.MULTILINE)
        assert "accelerators: {H100: 8}" in text
        for rank in range(4):
            told = {"SKYPILOT_NUM_NODES": "4", "SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NODE_IPS": "10.1.1.1\n10.1.1.2"}
            calls += shell(block(text, "run"), **told)
        head = "10.1.1.1"
    elif form == "slurm":
        assert "#SBATCH --nodes=4\n" in text
        (tmp_path / "venv").mkdir()
        told = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n", "SLURM_NNODES": "4", "SLURM_CPUS_PER_TASK": "32"}
        calls = shell(text, VENV=str(tmp_path / "venv"), **told)
        head = "node-a"
    else:
        named, work = documents(text)
        assert work["spec"]["completions"] == 4
        assert named["metadata"]["name"] == work["spec"]["template"]["spec"]["subdomain"] == "my-plan-70b"
        (container,) = work["spec"]["template"]["spec"]["containers"]
        calls = [call for rank in range(4) for call in shell(container["args"][0], JOB_COMPLETION_INDEX=str(rank))]
        head = "my-plan-70b-0.my-plan-70b"
    ranks = [understood(call) for call in calls if call.startswith("torchrun")]
    assert [one.node_rank for one in ranks] == [0, 1, 2, 3]
    assert {(one.nnodes, one.nproc_per_node, one.master_addr, one.training_script) for one in ranks} == {
        ("4", "8", head, "train.py")
    }
    (told_layout,) = set(re.findall(r"GPU_PLANNER_LAYOUT='(.*)'", text))
    given = json.loads(told_layout)
    assert {name: given[name] for name in ("tp", "dp", "sharding", "micro_batch", "sequence")} == {
        "tp": 2,
        "dp": 16,
        "sharding": "zero3",
        "micro_batch": 2,
        "sequence": 8192,
    }


@pytest.mark.torch_inside
def test_training_in_one_machine_needs_no_other(shell: Callable[..., list[str]]) -> None:
    row, job, gpu = first(TRAINING, "H100 SXM5 80GB", {"gpus": 8, "nodes": 1, "gpus_per_node": 8, "tp": 1, "dp": 8})
    (call,) = shell(block(written("sky", TRAINING, row, job, gpu, ""), "run"))
    assert understood(call).standalone
    assert understood(call).nproc_per_node == "8"


def test_training_is_told_what_is_generated_and_how_documents_share_sequences() -> None:
    layout = {"gpus": 8, "nodes": 1, "gpus_per_node": 8, "tp": 1, "dp": 8}
    row, job, gpu = first("qwen3-8b-grpo", "H100 SXM5 80GB", layout)
    (told,) = re.findall(r"GPU_PLANNER_LAYOUT='(.*)'", written("slurm", "qwen3-8b-grpo", row, job, gpu, ""))
    given = json.loads(told)
    assert given["packing"] == "longest"
    assert given["rollout"] == {
        "prompt_tokens": 512,
        "answer_tokens": {"mean": 1000, "p50": 700, "p95": None},
        "answers": 8,
    } | dict.fromkeys(("steps", "engine", "tp", "memory_share", "gpus"))


def test_a_slurm_job_asks_for_the_hours_the_plan_may_take() -> None:
    row, job, gpu = first(TRAINING, "H100 SXM5 80GB", {})
    assert row.job_h is not None
    (days, hours) = re.findall(r"^#SBATCH --time=(\d+)-(\d\d):00:00$", written("slurm", TRAINING, row, job, gpu, ""), re.MULTILINE)[
        0
    ]
    assert 0 <= int(days) * 24 + int(hours) - row.job_h.high <= 1


@pytest.mark.parametrize(("form", "said"), [("sky", "  use_spot: true\n"), ("dstack", "\nspot_policy: spot\n")])
def test_machines_are_rented_on_the_term_of_the_price(form: Form, said: str) -> None:
    spot = service(form, ONE, market="spot")
    assert said in spot
    assert re.search(r"^# Rent: .*, spot, 20", spot, re.MULTILINE)
    assert said not in service(form, ONE)


def test_a_service_in_one_machine(shell: Callable[..., list[str]]) -> None:
    (call,) = shell(block(service("sky", ONE), "run"))
    words = words_of(call)
    assert (words["model"], words["--tensor-parallel-size"], words["--pipeline-parallel-size"]) == (HUB, "4", "1")
    assert (words["--quantization"], words["--kv-cache-dtype"], words["--gpu-memory-utilization"]) == ("fp8", "fp8", "0.920")
    assert words["--max-model-len"] == "800"
    assert "--nnodes" not in words
    assert "\nservice:" not in service("sky", ONE)


def test_one_replica_over_nodes_is_one_server(shell: Callable[..., list[str]]) -> None:
    text = service("sky", ACROSS)
    calls = []
    for rank in range(2):
        told = {"SKYPILOT_NUM_NODES": "2", "SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NODE_IPS": "10.1.1.1\n10.1.1.2"}
        calls += [words_of(call) for call in shell(block(text, "run"), **told)]
    for rank, words in enumerate(calls):
        assert (words["--tensor-parallel-size"], words["--pipeline-parallel-size"]) == ("8", "2")
        assert (words["--nnodes"], words["--node-rank"], words["--master-addr"]) == ("2", str(rank), "10.1.1.1")
    assert ["--headless" in words for words in calls] == [False, True]

    named, door, pods = documents(service("kubernetes", ACROSS))
    assert (pods["kind"], pods["spec"]["replicas"], pods["spec"]["podManagementPolicy"]) == ("StatefulSet", 2, "Parallel")
    assert pods["spec"]["serviceName"] == named["metadata"]["name"]
    assert door["spec"]["selector"] == {"statefulset.kubernetes.io/pod-name": f"{pods['metadata']['name']}-0"}
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    assert "readinessProbe" not in container
    for rank in range(2):
        name = pods["metadata"]["name"]
        words = words_of(shell(container["args"][0], HOSTNAME=f"{name}-{rank}")[-1])
        assert (words["--node-rank"], words["--master-addr"]) == (str(rank), f"{name}-0.{named['metadata']['name']}")


def test_replicas_that_fit_a_machine_have_a_balancer_before_them(shell: Callable[..., list[str]]) -> None:
    text = service("sky", MANY)
    assert "  replicas: 3\n" in text
    assert "num_nodes: 1\n" in text
    (call,) = shell(block(text, "run"))
    assert (words_of(call)["--tensor-parallel-size"], words_of(call)["--data-parallel-size"]) == ("4", "2")
    door, pods = documents(service("kubernetes", MANY))
    assert (pods["kind"], pods["spec"]["replicas"]) == ("Deployment", 3)
    assert door["spec"]["selector"] == pods["spec"]["template"]["metadata"]["labels"]
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    assert container["readinessProbe"]["httpGet"]["port"] == 8000


@pytest.mark.parametrize(
    ("engine", "given"),
    [
        ("vllm", {"--tensor-parallel-size": "1", "--data-parallel-size": "8", "--enable-expert-parallel": ""}),
        ("sglang", {"--tp-size": "8", "--dp-size": "8", "--ep-size": "8", "--enable-dp-attention": ""}),
    ],
)
def test_replicas_that_share_experts_are_one_server(engine: str, given: dict[str, str], shell: Callable[..., list[str]]) -> None:
    shared = {"gpus": 16, "nodes": 2, "gpus_per_node": 8, "tp": 1, "pp": 1, "dp": 16, "ep": 8}
    row, job, gpu = first(SERVICE, "H200 SXM", shared, model="deepseek-v3", engine=engine, weight_dtype=None, kv_dtype=None)
    text = written("kubernetes", SERVICE, row, job, gpu, "deepseek-ai/DeepSeek-V3")
    _, pods = documents(text)
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    assert (pods["spec"]["replicas"], container["resources"]["limits"]) == (2, {"nvidia.com/gpu": 8})
    words = container["args"][0].split()
    assert all(name in words and (not value or words[words.index(name) + 1] == value) for name, value in given.items())
    assert "--quantization" not in words  # the checkpoint is published in FP8
    assert "MODEL has to be" not in text
    for layout, told in (({"tp": 4, "dp": 4, "ep": 2}, "ep = 2 with tp = 4"), ({"ep": 16}, "ep = 16 over several")):
        row, job, gpu = first(SERVICE, "H200 SXM", shared | layout, model="deepseek-v3", engine=engine)
        with pytest.raises(UserError, match=told):
            written("kubernetes", SERVICE, row, job, gpu, "deepseek-ai/DeepSeek-V3")


def test_vllm_finds_the_longest_context_where_requests_do_not_say_it() -> None:
    assert "--max-model-len auto" in service("sky", ONE, input_tokens=Lengths(mean=600, p95=2000))


def test_adapters_are_told_to_the_program() -> None:
    row, job, gpu = first(TRAINING, "H100 SXM5 80GB", {}, task="finetune", lora=Lora(rank=16, base="nf4"), recipe=None)
    (told,) = re.findall(r"GPU_PLANNER_LAYOUT='(.*)'", written("slurm", TRAINING, row, job, gpu, ""))
    given = json.loads(told)
    assert (given["lora"]["rank"], given["lora"]["base"], given["optimizer"]) == (16, "nf4", "adamw")


@pytest.mark.parametrize(
    ("name", "hub"),
    [
        ("deepseek-r1", "deepseek-ai/DeepSeek-R1"),
        ("deepseek-v3", "deepseek-ai/DeepSeek-V3"),
        ("llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct"),
        ("llama-3.1-70b", HUB),
        ("Llama 3.1 8B Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("TheBloke/Llama-2-13B-chat-AWQ", "TheBloke/Llama-2-13B-chat-AWQ"),
        ("./config.json", ""),
        ("nobody knows it", ""),
    ],
)
def test_the_checkpoint_is_the_one_most_like_the_name_asked_for(name: str, hub: str) -> None:
    assert session().models.hub_id(name) == hub


def test_skypilot_itself_accepts_them(tmp_path: Path) -> None:
    sky = pytest.importorskip("sky")
    for layout, nodes in ((ONE, 1), (ACROSS, 2), (MANY, 1)):
        path = tmp_path / "task.yaml"
        path.write_text(service("sky", layout))
        task = sky.Task.from_yaml(str(path))
        assert task.num_nodes == nodes
        assert (task.service is None) == (layout is not MANY)


@pytest.mark.parametrize(
    ("form", "layout", "more", "told"),
    [
        ("sky", {**ACROSS, "dp": 2, "gpus": 32, "nodes": 4}, {}, "2 replicas of 16 GPUs each, which span several nodes"),
        ("sky", {**ACROSS, "tp": 4, "pp": 3, "gpus": 12}, {}, "or do not fill their nodes"),
        ("slurm", MANY, {}, "3 replicas need a load balancer, which Slurm does not have"),
        ("sky", ONE, {"engine": "tensorrt-llm"}, "the engine is tensorrt-llm; jobs can be written for sglang, vllm"),
        ("sky", ONE, {"hub": ""}, "the model has no id on the Hugging Face hub"),
        ("sky", {**ONE, "prefill_replicas": 1}, {}, "replicas that only read prompts cannot be written"),
        ("sky", ONE, {"kv_dtype": "int8"}, "vLLM has no cache of int8"),
        ("slurm", ONE, {"gpu": "MI300X"}, "the pip package of vLLM is for NVIDIA GPUs, not AMD"),
    ],
)
def test_what_cannot_be_written_is_said(form: Form, layout: dict[str, Any], more: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=re.escape(told)):
        service(form, layout, **more)


def test_a_checkpoint_that_has_to_be_stored_otherwise_is_asked_for() -> None:
    assert "# MODEL has to be a checkpoint with weights stored as awq" in service("sky", ONE, weight_dtype="awq")
    assert "--quantization" not in service("sky", ONE, weight_dtype="awq")


@pytest.mark.sweep
def test_the_command_line_writes_the_first_row(run_planner: RunPlanner) -> None:
    done = run_planner("plan", SERVICE, "--gpu", "H100 SXM5 80GB", "--emit", "kubernetes")
    assert done.returncode == 0, done.stderr
    kinds = [one["kind"] for one in documents(done.stdout)]
    assert kinds == ["Service", "Deployment"]
    row = json.loads(run_planner("plan", SERVICE, "--gpu", "H100 SXM5 80GB", "--json", "--top", "1").stdout)["rows"][0]
    assert f"--tensor-parallel-size {row['answer']['layout']['tp']} " in done.stdout
    chat = run_planner("plan", "qwen3-8b-single-user-chat", "--emit", "sky")
    assert chat.returncode == 2
    assert "the task 'generate' cannot be written as a job" in chat.stderr
    assert chat.stdout == ""
    assert run_planner("plan", SERVICE, "--emit", "sky", "--json").returncode == 2
    nothing = run_planner("plan", SERVICE, "--gpu", "L4", "--set", "max_gpus=1", "--emit", "sky")
    assert nothing.returncode == 1
    assert nothing.stdout == ""


def test_an_encoder_is_served_by_its_own_options(run_planner: RunPlanner) -> None:
    keys = ("model=bert-large", "task=serve", "input_tokens=512", "request_rate_per_s=5")
    asked = [word for key in keys for word in ("--set", key)]
    done = run_planner("plan", *asked, "--gpu", "L4", "--emit", "kubernetes")
    assert done.returncode == 0, done.stderr
    assert "--max-model-len 512 " in done.stdout
    assert "--runner pooling" in done.stdout


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("vllm", "--enable-lora --max-loras 20 --max-lora-rank 32 ${ADAPTERS:+--lora-modules $ADAPTERS}"),
        ("sglang", "--max-loras-per-batch 20 --max-lora-rank 24 ${ADAPTERS:+--lora-paths $ADAPTERS}"),
    ],
)
def test_adapters_of_a_service_are_counted_and_named_by_their_owner(
    engine: str, options: str, shell: Callable[..., list[str]]
) -> None:
    text = service("sky", ONE, engine=engine, adapters=20, lora=Lora(rank=24))
    assert options in text
    assert "# ADAPTERS has to name your adapters" in text
    if engine == "vllm":
        (bare,) = shell(block(text, "run"))
        (named,) = shell(block(text, "run"), ADAPTERS="a=/one b=/two")
        assert named.split() == [*bare.split(), "--lora-modules", "a=/one", "b=/two"]
    assert "lora" not in service("sky", ONE, engine=engine)


def test_prefixes_in_the_hosts_memory_are_left_to_whoever_starts_it() -> None:
    assert "stores prefixes in the host's memory only if" in service("slurm", ONE, kv_offload=True, prefix_tokens=500)
    assert "keeps prefixes" not in service("slurm", ONE)


@pytest.mark.parametrize(("engine", "option"), [("vllm", "--enforce-eager"), ("sglang", "--disable-cuda-graph")])
def test_cuda_graphs_are_turned_off_by_the_engines_own_option(engine: str, option: str) -> None:
    assert option in service("sky", ONE, engine=engine, cuda_graphs=False)
    assert option not in service("sky", ONE, engine=engine)


@pytest.mark.parametrize("engine", SERVICES)
def test_every_engine_with_an_entry_is_started_by_its_own_options(engine: str) -> None:
    one = SERVICES[engine]
    assert find_engine(engine).name == engine
    assert find_engine(engine).label == one.name
    text = service("slurm", ACROSS, engine=engine, lora=Lora(rank=8))
    for words in (one.starts, f"{one.degrees[0]} 8", f"{one.degrees[1]} 2", one.memory, *one.adapters, one.across.strip()):
        assert words in text


def test_a_name_that_stands_for_another_engine_starts_that_one_and_says_so() -> None:
    text = service("slurm", ONE, engine="tgi")
    assert "# TGI has no figures of its own here, and is taken to be as fast as vLLM; what is started here is vLLM." in text
    assert "what is started" not in service("slurm", ONE, engine="vllm")


def test_a_wrong_entry_of_an_engine_says_what_is_required() -> None:
    found = str(faults(Service, {"degrees": ["--tp", "--dp"], "caches": {"bf16": 3}}, "services.toml"))
    for said in (
        "images', message='missing; a table is",
        "a list of 4 items, each item a text",
        "caches.bf16', message='3 is not accepted",
    ):
        assert said in found
