"""`doctor` on a machine without a driver, on one with GPUs, and with an interpreter that is not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from nvml_stub import A100, COMPILER, H100, ControlFile, build
from repository import ROOT

RunPlanner = Callable[..., "CompletedProcess[str]"]


@pytest.mark.process
def test_without_a_driver_everything_else_is_told(run_planner: RunPlanner, tmp_path: Path) -> None:
    done = run_planner("doctor", "--json", "--python", str(tmp_path / "absent"))
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert all("error" not in facts for facts in found.values()), found
    assert found["nvml"]["state"] in {"no driver", "ready"}
    assert found["torch"]["state"] == "no-interpreter"
    assert found["catalogue"]["gpus"] >= 60
    assert found["catalogue"]["offers"] >= 300
    assert found["prices"]["age_days"] >= 0
    assert found["measurements"]["count"] == 0
    assert found["folders"]["presets"]["exists"]
    assert found["cpu"]["peak_flop_per_s"]["fp32"] > 1e9


@pytest.mark.process
def test_for_people_every_topic_is_a_line(run_planner: RunPlanner) -> None:
    done = run_planner("doctor")
    assert done.returncode == 0, done.stderr
    topics = [line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert topics == ["program", "nvml", "cpu", "torch", "folders", "catalogue", "prices", "measurements"]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler to build the stand-in with")
def test_gpus_are_named_with_what_can_be_read_of_them(planner_process: RunPlanner, tmp_path: Path) -> None:
    library = build(tmp_path / "library")
    control = ControlFile(tmp_path / "control")
    forbidden = H100 | {"uuid": "GPU-2", "fail.nvmlGpmSampleGet": 4}
    control.devices(H100, A100, forbidden)
    switches = {"LD_LIBRARY_PATH": str(library), "NVML_STUB": str(control.path)}
    found = json.loads(planner_process("doctor", "--json", **switches).stdout)["nvml"]
    assert (found["state"], found["driver"], found["cuda"]) == ("ready", "570.86.15", "12.8")
    assert [gpu["gpm"] for gpu in found["gpus"]] == ["ok", "not supported", "no permission"]
    assert found["gpus"][0]["catalogue"] == "H100 SXM5 80GB"
    text = planner_process("doctor", **switches).stdout
    assert "(GPM): readable" in text
    assert "(GPM): need Hopper or newer" in text
    assert "(GPM): not permitted" in text


@pytest.mark.process
def test_long_lines_are_folded_below_themselves(run_planner: RunPlanner) -> None:
    lines = run_planner("doctor", COLUMNS="80").stdout.splitlines()
    long = [line for line in lines if len(line) > 80]
    assert all(len(line[14:].split()) == 1 for line in long), long
    topics = {line.split()[0] for line in lines if not line.startswith(" ")}
    assert {"program", "nvml", "cpu", "torch", "folders", "catalogue", "prices", "measurements"} == topics


@pytest.mark.process
def test_a_user_without_name_and_home_plans_and_is_told_that_nothing_is_kept(tmp_path: Path) -> None:
    """A container that was started under a user number of its own has such a user."""
    nobody = """
import pwd, sys
def getpwuid(number): raise KeyError(number)
pwd.getpwuid = getpwuid
from planner.cli import main
sys.exit(main(argv=sys.argv[1:]))
"""
    environment = {name: value for name, value in os.environ.items() if name != "HOME" and not name.startswith("XDG_")}
    for words in (["plan", "--top", "1", "--gpu", "L4"], ["doctor", "--json"], ["measurements", "export"]):
        done = subprocess.run(
            [sys.executable, "-c", nobody, *words], env={**environment, "PYTHONPATH": str(ROOT)}, cwd=tmp_path,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode in {0, 1}, done.stderr
        assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
