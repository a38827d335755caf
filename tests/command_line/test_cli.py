"""The command line as people and scripts meet it: stdout, stderr and exit codes, of real processes where that is the question."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from repository import RunPlanner

from planner.cli.commands import COMMANDS
from planner.cli.plan.options import parse_settings
from planner.cli.root import root
from planner.engine.answers.plan import Lever, Plan
from planner.hardware.measurements.measurement import Measurement
from planner.present.command_line import PlanCommand, spelled
from planner.workload.tasks import Lora, Targets

pytestmark = pytest.mark.usefixtures("planned_once")


def test_plan_answers_in_json_as_its_schema_says(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "llama-3.1-70b-chat-service", "--json")
    assert done.returncode == 0, done.stderr
    plan = msgspec.json.decode(done.stdout, type=Plan, strict=True)
    assert json.loads(msgspec.json.encode(plan)) == json.loads(done.stdout), "a key that the schema does not know"
    assert plan.counts.shown == len(plan.rows)
    assert plan.counts.fit <= plan.counts.considered
    ranks = [row.rank for row in plan.rows if row.rank is not None]
    assert ranks == list(range(1, len(ranks) + 1))
    assert all(row.why for row in plan.rows)
    assert plan.prices_as_of is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", plan.prices_as_of)


def test_the_default_plan_ranks_many_parts_and_providers(run_planner: RunPlanner) -> None:
    plan = msgspec.json.decode(run_planner("plan", "--json").stdout, type=Plan)
    assert len(plan.rows) >= 40
    assert len({row.gpu for row in plan.rows}) >= 15
    assert len({row.offer.provider for row in plan.rows if row.offer}) >= 3


def test_a_table_names_each_gpu_once_unless_rows_are_asked_for(run_planner: RunPlanner) -> None:
    ranks = {
        arguments: re.findall(r"^ *(\d+)  (.*?)  ", run_planner("plan", *arguments, COLUMNS="200").stdout, re.MULTILINE)
        for arguments in [(), ("--top", "12")]
    }
    gpus = [gpu for _, gpu in ranks[()]]
    assert len(gpus) == len(set(gpus)) == 12
    assert [rank for rank, _ in ranks["--top", "12"]] == [str(rank) for rank in range(1, 13)]
    assert dict(ranks[()][:1]) == dict(ranks["--top", "12"][:1])


def test_figures_hold_their_own_value_and_memory_adds_up(run_planner: RunPlanner) -> None:
    plan = msgspec.json.decode(run_planner("plan", "--json").stdout, type=Plan)
    for row in plan.rows:
        memory = row.answer.memory_bytes
        if memory is not None:
            parts = sum(
                getattr(memory, name) for name in memory.__struct_fields__ if name not in {"total", "capacity", "usable_share"}
            )
            assert parts == pytest.approx(memory.total.value, rel=1e-6)
        for figure in (row.answer.output_tokens_per_s, row.answer.usd_per_million_tokens, row.usd_per_h):
            assert figure is None or 0 < figure.low <= figure.value <= figure.high


@pytest.mark.sweep
def test_nothing_fits_exits_with_1_and_names_levers(run_planner: RunPlanner) -> None:
    done = run_planner(
        "plan", "--set", "task=train", "--set", "model=meta-llama/Llama-3.1-405B", "--set", "sequence=8192", "--set", "global_batch=128",
        "--set", "targets=", "--set", "request_rate_per_s=", "--set", "max_gpus=1", "--gpu", "T4", "--json",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    plan = msgspec.json.decode(done.stdout, type=Plan)
    assert plan.counts.fit == 0
    assert plan.levers
    assert all(lever.text for lever in plan.levers)


def test_set_reaches_the_plan(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "--set", "targets.p95_request_s=7.5", "--gpu", "H200 SXM", "--objective", "fastest", "--json")
    task = json.loads(done.stdout)["task"]
    assert task["targets"]["p95_request_s"] == 7.5
    assert task["objective"] == "fastest"
    assert {row["gpu"] for row in json.loads(done.stdout)["rows"]} == {"H200 SXM"}


def test_every_wrong_setting_is_named_with_the_nearest_spelling(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "--set", "modle=x", "--set", "task=trian", "--set", "targets.burst=lots", "--json")
    assert done.returncode == 2
    assert not done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) == 3, done.stderr
    for line, key, nearest in zip(sorted(lines), ("modle", "targets.burst", "task"), ("'model'", "number", "'train'"), strict=True):
        assert f"--set: {key}" in line
        assert nearest in line


def test_a_setting_without_a_value_sign_is_refused(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "--set", "task", "--set", "=3")
    assert done.returncode == 2
    assert done.stderr.count("KEY=VALUE") == 2


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("plna",), "'plan'"),
        (("plan", "llama-3.1-70b-chat-servce"), "'llama-3.1-70b-chat-service'"),
        (("plan", "--objectiv", "fastest"), "--objective"),
        (("plan", "--objective", "quickest"), "'fastest'"),
        (("plan", "--gpu", "H200 SMX"), "'H200 SXM'"),
        (("gpus", "show", "H200 SMX"), "'H200 SXM'"),
        (("gpus", "shwo", "T4"), "'show'"),
        (("presets", "show", "llama-3.1-70b-chat-servce"), "'llama-3.1-70b-chat-service'"),
        (("schema", "answr"), "'answer'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_name_gets_its_nearest_spelling(run_planner: RunPlanner, arguments: tuple[str, ...], hint: str) -> None:
    done = run_planner(*arguments)
    assert done.returncode == 2
    assert not done.stdout
    assert hint in done.stderr


def test_the_command_nobody_names_is_not_named_in_its_faults(run_planner: RunPlanner) -> None:
    done = run_planner("--nosuch")
    assert done.returncode == 2
    assert "Usage: gpu-planner [OPTIONS] [PRESET]" in done.stderr
    done = run_planner("llama-3.1-8b-lor")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "'llama-3.1-8b-lora'" in done.stderr
    done = run_planner("plann")
    assert done.stderr == "error: 'plann' is neither a command nor a preset. Did you mean 'plan' or 'replay'?\n"
    done = run_planner("chat")
    assert done.stderr.endswith(" Did you mean 'llama-3.1-70b-chat-service' or 'qwen3-8b-single-user-chat'?\n")


CONFIG = """{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072,
"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": 28, "vocab_size": 151936,
"max_position_embeddings": 40960, "tie_word_embeddings": true, "torch_dtype": "bfloat16"}"""


@pytest.mark.sweep
def test_a_model_may_stand_where_a_preset_does(run_planner: RunPlanner, tmp_path: Path) -> None:
    """Its name, or the path of its config.json: people have these before they have a preset."""
    (tmp_path / "config.json").write_text(CONFIG)
    for model in ("qwen3-0.6b", str(tmp_path / "config.json")):
        done = run_planner(model)
        assert done.returncode == 0, done.stderr
        assert "serve · " in done.stdout.splitlines()[0]
        assert "are those of llama-3.1-70b-chat-service" in done.stderr
    done = run_planner("acme/nope-7b")
    assert done.returncode == 2
    assert "'acme/nope-7b' is not in the catalogue" in done.stderr


def test_a_broken_preset_file_is_reported_whole(run_planner: RunPlanner, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('model = "Qwen/Qwen3-8B"\ntask = "serv"\nconcurency = 4\n')
    done = run_planner("plan", "mine.toml")
    assert done.returncode == 2
    assert "mine.toml: task" in done.stderr
    assert "'serve'" in done.stderr
    assert "mine.toml: concurency" in done.stderr
    assert "'concurrency'" in done.stderr


def test_a_preset_shown_is_a_preset_file(run_planner: RunPlanner, tmp_path: Path) -> None:
    shown = run_planner("presets", "show", "llama-3.1-70b-chat-service").stdout
    (tmp_path / "copy.toml").write_text(shown)
    copied, shipped = (
        json.loads(run_planner("plan", name, "--json").stdout) for name in ("copy.toml", "llama-3.1-70b-chat-service")
    )
    assert copied == shipped


def test_table_csv_and_markdown_tell_the_same_rows(run_planner: RunPlanner) -> None:
    rows = json.loads(run_planner("plan", "--top", "5", "--json").stdout)["rows"]
    table = list(csv.DictReader(io.StringIO(run_planner("plan", "--top", "5", "--csv").stdout)))
    assert [(line["gpu"], line["rank"]) for line in table] == [(row["gpu"], str(row["rank"] or "")) for row in rows]
    assert [line["here"] for line in table] == [str(int(row.get("here", False))) for row in rows]
    assert float(table[0]["tokens_per_s"]) == rows[0]["answer"]["output_tokens_per_s"]["value"]
    markdown = run_planner("plan", "--top", "5", "--markdown").stdout.splitlines()
    assert len(markdown) == 2 + len(rows)
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in markdown}) == 1
    people = run_planner("plan", "--top", "5").stdout
    assert all(row["gpu"] in people for row in rows if not row.get("here"))
    assert (", here" in people) == any(row.get("here") for row in rows)


COMMAND = "    gpu-planner plan "


@pytest.mark.sweep
@pytest.mark.parametrize("preset", ["llama-3.1-70b-chat-service", "llama-3.1-405b-pretrain", "llama-3.1-8b-lora"])
def test_the_table_fits_and_cuts_no_figure(run_planner: RunPlanner, preset: str) -> None:
    wide = run_planner("plan", preset, "--top", "30", COLUMNS="1000").stdout.splitlines()
    all_titles, figures = cells(wide[1]), {cell for line in wide for cell in cells(line)}
    for columns in (40, 80, 120, 200):
        done = run_planner("plan", preset, "--top", "30", COLUMNS=str(columns))
        lines = done.stdout.splitlines()
        assert all(len(line) <= columns for line in lines if not line.startswith(COMMAND)), "but commands to paste stay whole"
        head = next(number for number, line in enumerate(lines) if re.match(r" *#", line))
        titles = cells(lines[head])
        assert titles == [title for title in all_titles if title in titles]
        left_out = done.stderr.partition("also shows: ")[2].strip().split(", ")
        assert sorted({*titles, *filter(None, left_out), "why"}) == sorted(all_titles)
        assert ("why" in titles) != ("Why" in lines)
        for line in lines[head + 1 : head + 6]:
            assert set(cells(line)[: len(titles) - ("why" in titles)]) <= figures, line


def cells(line: str) -> list[str]:
    """The cells of one line of a table."""
    return re.split(r" {2,}", line.strip())


def test_a_service_is_priced_by_the_month_and_a_job_whole(run_planner: RunPlanner) -> None:
    service = run_planner("plan", "--top", "3").stdout.splitlines()[1]
    job = run_planner("plan", "llama-3.1-8b-lora", "--top", "3").stdout.splitlines()[1]
    assert "$/month" in service
    assert "$/job" not in service
    assert "$/job" in job
    assert "job takes" in job
    assert "$/month" not in job
    (first, *_) = csv.DictReader(io.StringIO(run_planner("plan", "llama-3.1-8b-lora", "--top", "1", "--csv").stdout))
    assert float(first["job_usd"]) == pytest.approx(float(first["job_h"]) * float(first["usd_per_h"]))


@pytest.mark.sweep
def test_what_does_not_fit_has_no_speed(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "llama-3.1-405b-pretrain", "--gpu", "H100 SXM5 80GB", "--set", "max_gpus=8", "--markdown")
    assert done.returncode == 1
    heads, _, *rows = ([cell.strip() for cell in line.strip("|\n").split("|")] for line in done.stdout.splitlines())
    lost = dict(zip(heads, rows[0], strict=True))
    assert (lost["#"], lost["tokens/s"], lost["limit"]) == ("✗", "—", "—")
    assert "short" in lost["why"]


@pytest.mark.sweep
def test_levers_are_commands_to_paste(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "llama-3.1-8b-full-finetune", "--gpu", "T4", "--set", "max_gpus=1")
    assert done.returncode == 1
    commands = re.findall(r"^    (gpu-planner plan .*)$", done.stdout, re.MULTILINE)
    assert len(commands) >= 3
    assert any("lora={" in command for command in commands)
    assert sum("max_gpus=" in command for command in commands) == len(commands), "what was given is kept, once"
    again = run_planner(*shlex.split(commands[0])[1:], "--json")  # tests/command_line/plan/test_promises.py runs all of others
    assert again.returncode in {0, 1}, (commands[0], again.stderr)


@pytest.mark.sweep
def test_a_lever_that_opens_the_catalogue_drops_the_gpu(run_planner: RunPlanner) -> None:
    done = run_planner("plan", "llama-3.1-405b-pretrain", "--gpu", "H100 SXM5 80GB", "--set", "max_gpus=8")
    assert "gpu-planner plan llama-3.1-405b-pretrain --gpu 'H100 SXM5 80GB' --set" in done.stdout
    lever = Lever(change={"gpus_considered": []}, text="any GPU")
    asked = PlanCommand("a preset", ["max_gpus=8"], ["T4"], None)
    assert asked.text_with(lever) == "gpu-planner plan 'a preset' --set max_gpus=8 --set 'gpus_considered=[]'"


@pytest.mark.parametrize(
    ("key", "value", "fields"),
    [
        ("optimizer", "adamw-8bit", {"optimizer": "adamw-8bit"}),
        ("title", "1e5", {"title": "1e5"}),
        ("title", "", {"title": ""}),
        ("title", 'say "é" =', {"title": 'say "é" ='}),
        ("max_gpus", 64, {"max_gpus": 64}),
        ("compile", True, {"compile": True}),
        ("gpus_considered", ["T4", "L4"], {"gpus_considered": ["T4", "L4"]}),
        ("targets", {"headroom": 0.02}, {"targets.headroom": 0.02}),
        (
            "companions",
            [{"model": "a b", "weight_dtype": None}, {"model": "c"}],
            {"companions": [{"model": "a b"}, {"model": "c"}]},
        ),
        ("lora", Lora(rank=16, base="nf4"), {"lora": {"rank": 16, "targets": "all-linear", "base": "nf4"}}),
        ("targets", Targets(p95_request_s=5.0), {"targets": {"p95_request_s": 5.0, "burst": 0.0}}),
    ],
)
def test_what_is_spelled_for_set_is_read_back(key: str, value: Any, fields: dict[str, Any]) -> None:
    assert parse_settings(spelled(key, value)) == fields


def test_a_terminal_without_the_signs_still_gets_the_answer(planner_process: RunPlanner) -> None:
    done = planner_process("plan", "--top", "3", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "B200 SXM" in done.stdout


def test_without_a_terminal_the_plan_is_printed(planner_process: RunPlanner, run_planner: RunPlanner) -> None:
    bare, planned = planner_process(), run_planner("plan")
    assert (bare.returncode, bare.stdout) == (0, planned.stdout)
    assert planned.stdout


@pytest.mark.parametrize("subject", ["request", "answer", "plan", "preset", "measurement"])
def test_schemas_are_json_schema(run_planner: RunPlanner, subject: str) -> None:
    schema = json.loads(run_planner("schema", subject).stdout)
    assert schema["$schema"].startswith("https://json-schema.org/")
    name = schema["$ref"].rsplit("/", 1)[1]
    assert schema["$defs"][name]["properties"]


def test_the_catalogue_is_listed_and_shown(run_planner: RunPlanner) -> None:
    gpus = json.loads(run_planner("gpus", "--json").stdout)
    assert len(gpus) >= 60
    assert json.loads(run_planner("gpus", "show", "t4", "--json").stdout) in gpus
    assert all(gpu["name"] in run_planner("gpus", "list").stdout for gpu in gpus[:3])
    presets = json.loads(run_planner("presets", "list", "--json").stdout)
    assert {"llama-3.1-70b-chat-service"} <= {preset["name"] for preset in presets}
    offers = json.loads(run_planner("offers", "show", "H200 SXM", "--json").stdout)
    assert offers
    assert {offer["gpu"] for offer in offers} == {"H200 SXM"}
    unknown = run_planner("offers", "list", "--provider", "coreweve")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "Did you mean 'coreweave'" in unknown.stderr
    head, *rows = run_planner("offers", "show", "H200 SXM", COLUMNS="200").stdout.splitlines()
    dates = head.index("as of")
    assert all(row[dates - 2 : dates + 2] == "  20" for row in rows if row[0] != " ")


MISSING = "missing; a positive whole number is required."


def test_a_config_that_lacks_sizes_is_named_with_them(run_planner: RunPlanner, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama", "hidden_size": 64, "num_hiden_layers": 8}')
    for words in (("models", "show", str(path)), ("plan", "--set", f"model={path}", "--set", "task=train")):
        done = run_planner(*words)
        assert done.returncode == 2
        first, *_ = done.stderr.splitlines()
        assert first.endswith(f"{path}: model.num_hidden_layers: {MISSING} Did you mean 'num_hiden_layers'?")
        assert "'hidden_size'" not in done.stderr, "it has a meaning of its own"


def test_one_model_is_shown_with_its_parameters(run_planner: RunPlanner) -> None:
    model = json.loads(run_planner("models", "show", "Qwen/Qwen3-8B", "--json").stdout)
    assert model["parameters"]["total"] == 8_190_735_360
    shown = run_planner("models", "show", "Qwen/Qwen3-8B").stdout
    assert all(words in shown for words in ("8.19 B", "40,960 tokens", "15.3 GiB in bf16", "config.json of Qwen/Qwen3-8B"))


@pytest.mark.parametrize(
    ("group", "name"), [("models", "Qwen/Qwen3-8B"), ("gpus", "L4"), ("offers", "L4"), ("presets", "llama-3.1-70b-chat-service")]
)
def test_a_name_behind_a_catalogue_is_shown(run_planner: RunPlanner, group: str, name: str) -> None:
    assert run_planner(group, name).stdout == run_planner(group, "show", name).stdout != ""
    assert "Did you mean 'show'?" in run_planner(group, "sohw").stderr


def test_every_listed_model_has_its_sizes_at_the_top_of_its_config(run_planner: RunPlanner) -> None:
    """Programs that read the list find them in one place, whether or not a model has a tower."""
    for model in json.loads(run_planner("models", "list", "--json").stdout):
        config = model["config"]
        assert any(
            config.get(key) for key in ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads")
        ), model
        layers = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "layers_block_type", "hybrid_override_pattern")
        assert any(config.get(key) for key in layers), model


def test_version_and_help_say_so_on_stdout(planner_process: RunPlanner, run_planner: RunPlanner) -> None:
    import planner

    assert planner.__version__ in planner_process("--version").stdout
    shown = run_planner("--help")
    assert shown.returncode == 0
    for command in ("plan", "estimate", "bench", "watch", "doctor", "schema", "gpus", "models", "presets", "offers"):
        assert re.search(rf"^  {command} ", shown.stdout, re.MULTILINE)


def test_bench_names_an_interpreter_that_is_not_there(run_planner: RunPlanner) -> None:
    done = run_planner("bench", "--python", "/no/such/python")
    assert done.returncode == 2
    assert not done.stdout
    assert "/no/such/python" in done.stderr
    assert "--python" in done.stderr


@pytest.mark.measuring
@pytest.mark.usefixtures("torch_here")
def test_bench_prints_each_result_as_a_measurement(planner_process: RunPlanner) -> None:
    done = planner_process("bench", "--suite", "smoke", "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    measured = [msgspec.json.decode(line, type=Measurement) for line in done.stdout.splitlines()]
    assert {measurement.kind for measurement in measured} == {"gemm", "copy", "train"}
    assert len({measurement.fingerprint for measurement in measured}) == 1
    assert "kept" in done.stderr


def test_an_engine_of_the_preset_goes_with_its_task(run_planner: RunPlanner) -> None:
    turned = run_planner("plan", "--set", "task=finetune", "--set", "targets=", "--gpu", "H200 SXM", "--json")
    assert turned.returncode == 0, turned.stderr
    prices = [
        row["answer"]["usd_per_million_tokens"]["value"] for row in json.loads(turned.stdout)["rows"] if row["verdict"] == "fits"
    ]
    # the load of the service that it was says nothing of training: first comes the one whose tokens cost least
    assert prices[0] == min(prices)
    named = run_planner("plan", "--set", "task=finetune", "--set", "engine=sglang")
    assert named.returncode == 2
    assert "'sglang' does not train" in named.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_explains_itself(name: str) -> None:
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert command.help
    shown = command.get_help(click.Context(command, info_name=name))
    assert shown.startswith("Usage: ")
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert all(option.help for option in options), [option.name for option in options if not option.help]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("watch --once --speed 3", ["--speed: needs --replay or --demo."]),
        ("watch --once --record-limit 3", ["--record-limit: needs --record."]),
        (
            "bench --suite smoke --rates 1 --set gpu=H100",
            ["--rates: is only measured with --suite serve", "--set: is only measured with --suite serve"],
        ),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(run_planner: RunPlanner, command: str, told: list[str]) -> None:
    result = run_planner(*command.split())
    assert (result.returncode, result.stdout) == (2, "")
    assert all(words in line for words, line in zip(told, result.stderr.splitlines(), strict=True))
