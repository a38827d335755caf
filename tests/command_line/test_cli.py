"""Help, version, the catalogue and presets on the command line: stdout, stderr and exit codes, of real processes where that is the question."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import msgspec
import pytest
from repository import RunPlanner

from planner.cli.commands import COMMANDS
from planner.cli.root import root
from planner.hardware.measurements.measurement import Measurement

pytestmark = pytest.mark.usefixtures("planned_once")


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


def test_a_preset_shown_is_a_preset_file(run_planner: RunPlanner, tmp_path: Path) -> None:
    shown = run_planner("presets", "show", "llama-3.1-70b-chat-service").stdout
    (tmp_path / "copy.toml").write_text(shown)
    copied, shipped = (
        json.loads(run_planner("plan", name, "--json").stdout) for name in ("copy.toml", "llama-3.1-70b-chat-service")
    )
    assert copied == shipped


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


@pytest.mark.measuring
@pytest.mark.usefixtures("torch_here")
def test_bench_prints_each_result_as_a_measurement(planner_process: RunPlanner) -> None:
    done = planner_process("bench", "--suite", "smoke", "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    measured = [msgspec.json.decode(line, type=Measurement) for line in done.stdout.splitlines()]
    assert {measurement.kind for measurement in measured} == {"gemm", "copy", "train"}
    assert len({measurement.fingerprint for measurement in measured}) == 1
    assert "kept" in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_explains_itself(name: str) -> None:
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert command.help
    shown = command.get_help(click.Context(command, info_name=name))
    assert shown.startswith("Usage: ")
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert all(option.help for option in options), [option.name for option in options if not option.help]
