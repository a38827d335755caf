"""Jobs that measure elsewhere: each is held to its own tool where that is there, and to its documented form everywhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from job_sample import block
from repository import RunPlanner

from planner.cli.emit.frames import sky_names
from planner.cli.emit.measuring import Job, written
from planner.errors import UserError
from planner.hardware.catalogue.gpus import load_gpus
from planner.paths import presets_folder

JOB = Job(("H100 SXM5 80GB", "L4"), "standard", "qwen3-8b", 2)
DOCUMENTED = {
    "": {"name", "workdir", "num_nodes", "resources", "envs", "setup", "run", "file_mounts"},
    "resources": {"accelerators", "disk_size", "autostop", "infra", "any_of", "image_id", "use_spot"},
    "autostop": {"idle_minutes", "down"},
}
"""Keys of docs.skypilot.co/en/latest/reference/yaml-spec.html that a task of ours may use."""


def bash_accepts(script: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    done = subprocess.run([bash, "-n"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_the_sky_task_uses_documented_keys_and_sound_shell() -> None:
    text = written("sky", JOB)
    found = yaml.safe_load(text)
    assert set(found) <= DOCUMENTED[""]
    assert set(found["resources"]) <= DOCUMENTED["resources"]
    assert set(found["resources"]["autostop"]) == DOCUMENTED["autostop"]
    assert found["resources"]["accelerators"] == {"H100": 2}
    assert found["resources"]["autostop"] == {"idle_minutes": 10, "down": True}
    for name in ("setup", "run"):
        bash_accepts(block(text, name))
    comments = "\n".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#   "))
    bash_accepts(comments)
    assert "H100 L4" in comments
    assert "--model qwen3-8b" in text
    assert "measurements export" in block(text, "run")


def test_skypilot_itself_accepts_the_task(tmp_path: Path) -> None:
    sky = pytest.importorskip("sky")
    path = tmp_path / "task.yaml"
    path.write_text(written("sky", JOB))
    task = sky.Task.from_yaml(str(path))
    assert {str(name) for one in task.resources for name in one.accelerators} == {"H100"}


def test_every_name_for_skypilot_is_of_a_known_part() -> None:
    known = {gpu.name for gpu in load_gpus(presets_folder() / "gpus").all}
    assert set(sky_names()) <= known
    with pytest.raises(UserError, match="SkyPilot has no name for Gaudi 3"):
        written("sky", Job(("Gaudi 3", "L4"), "quick"))


@pytest.mark.process
def test_the_batch_script_leaves_its_result_where_it_was_submitted(tmp_path: Path) -> None:
    text = written("slurm", JOB)
    bash_accepts(text)
    assert text.startswith("#!/bin/bash\n")
    directives = re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", text, re.MULTILINE)
    assert dict(directives)["gres"] == "gpu:2"
    assert dict(directives)["time"] == "00:30:00"
    first_command = next(number for number, line in enumerate(text.splitlines()) if line and not line.startswith("#"))
    assert all(number < first_command for number, line in enumerate(text.splitlines()) if line.startswith("#SBATCH"))

    stand_in = tmp_path / "venv" / "bin" / "gpu-planner"
    stand_in.parent.mkdir(parents=True)
    stand_in.write_text(
        '#!/bin/bash\necho "$@" >> "$CALLS"\n[ "$3" = bench ] && exit 1\nwhile [ $# -gt 1 ]; do shift; done\necho "{}" > "$1"\n'
    )
    stand_in.chmod(0o755)
    environment = {
        **os.environ,
        "VENV": str(tmp_path / "venv"),
        "CALLS": str(tmp_path / "calls"),
        "SLURM_SUBMIT_DIR": str(tmp_path),
    }
    done = subprocess.run(
        ["bash"], input=text, env=environment | {"SLURM_JOB_ID": "77"}, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "gpu-planner-77.json").read_text() == "{}\n"
    bench, export = (tmp_path / "calls").read_text().splitlines()
    assert bench.endswith("bench --suite standard --device cuda:0 --model qwen3-8b")
    assert "measurements export" in export


@pytest.mark.process
def test_the_dockerfile_is_made_of_instructions_and_runs_sound_shell() -> None:
    text = written("docker", JOB)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line.split()[0] for line in lines] == ["FROM", "WORKDIR", "COPY", "RUN", "WORKDIR", "VOLUME", "CMD"]
    shell, flag, script = json.loads(lines[-1].removeprefix("CMD "))
    assert (shell, flag) == ("sh", "-c")
    bash_accepts(script)
    assert "--out /out/" in script


@pytest.mark.sweep
def test_the_command_line_writes_jobs_for_the_plans_first_gpus(run_planner: RunPlanner) -> None:
    done = run_planner("bench", "--emit", "sky")
    assert done.returncode == 0, done.stderr
    assert "--suite standard" in done.stdout
    first = json.loads(run_planner("plan", "--json", "--top", "1").stdout)["rows"][0]["gpu"]
    assert f"# Measures {first}, " in done.stdout
    named = run_planner("bench", "--emit", "slurm", "--gpu", "l40s", "--suite", "quick", "--ranks", "4")
    assert "sbatch --gres=gpu:l40s:4" in named.stdout
    assert "--suite quick" in named.stdout
    assert run_planner("bench", "--gpu", "L4").returncode == 2
    wrong = run_planner("bench", "--emit", "docker", "--gpu", "L44")
    assert wrong.returncode == 2
    assert "L4" in wrong.stderr
    assert run_planner("bench", "--emit", "docker", "--model", "nobody").returncode == 2
