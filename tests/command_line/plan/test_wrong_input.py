"""Wrong input on the command line: every problem named, with the nearest spelling and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from repository import RunPlanner

pytestmark = pytest.mark.usefixtures("planned_once")


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


def test_a_broken_preset_file_is_reported_whole(run_planner: RunPlanner, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('model = "Qwen/Qwen3-8B"\ntask = "serv"\nconcurency = 4\n')
    done = run_planner("plan", "mine.toml")
    assert done.returncode == 2
    assert "mine.toml: task" in done.stderr
    assert "'serve'" in done.stderr
    assert "mine.toml: concurency" in done.stderr
    assert "'concurrency'" in done.stderr


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


def test_bench_names_an_interpreter_that_is_not_there(run_planner: RunPlanner) -> None:
    done = run_planner("bench", "--python", "/no/such/python")
    assert done.returncode == 2
    assert not done.stdout
    assert "/no/such/python" in done.stderr
    assert "--python" in done.stderr


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
