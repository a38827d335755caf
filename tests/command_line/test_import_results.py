"""`measurements import` of other tools' results: compared, explained, kept for `validate`, asked for what is missing."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT, RunPlanner

pytestmark = pytest.mark.server

FILES = ROOT / "tests" / "data" / "results"
H100 = ("--set", "gpu=H100", "--set", "gpus=1", "--set", "dtype=bf16")


def test_what_a_file_does_not_hold_is_asked_for_by_name(run_planner: RunPlanner, tmp_path: Path) -> None:
    done = run_planner("--state", str(tmp_path), "measurements", "import", str(FILES / "vllm_serve.json"))
    assert done.returncode == 2
    asked = [line.split(": ")[2] for line in done.stderr.splitlines()]
    assert asked == ["gpu", "gpus", "dtype"]
    assert "--set gpu=VALUE, such as gpu=H100" in done.stderr
    assert not (tmp_path / "predictions.jsonl").exists()


def test_what_many_files_lack_is_asked_for_once(run_planner: RunPlanner, tmp_path: Path) -> None:
    for number in range(3):
        shutil.copy(FILES / "vllm_serve.json", tmp_path / f"run{number}.json")
    done = run_planner("measurements", "import", str(tmp_path))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 3
    assert "run0.json and 2 more files: gpu: is not in the file" in done.stderr


def test_prediction_and_result_stand_beside_each_other_and_are_kept_once(run_planner: RunPlanner, tmp_path: Path) -> None:
    done = run_planner("--state", str(tmp_path), "measurements", "import", str(FILES / "trtllm_bench.json"))
    assert done.returncode == 0
    assert "Predicted " in done.stdout
    assert re.search(r"output tokens/s, you got 16,500: \+\d+ %, (inside|outside) the range\.", done.stdout)
    again = run_planner("--state", str(tmp_path), "measurements", "import", str(FILES / "trtllm_bench.json"), "--json")
    (shown,) = json.loads(again.stdout)
    assert shown["request"]["gpu"] == "H100 SXM5 80GB"
    assert {one["quantity"] for one in shown["verdicts"]} == set(shown["seen"])
    assert "1 result stored" in done.stderr
    assert "0 results stored for validate, 1 already stored" in again.stderr
    validated = run_planner("--state", str(tmp_path), "validate", "--json")
    scores = {one["kind"]: one for one in json.loads(validated.stdout)["own"]}
    assert scores["own: time per output token"]["n"] == 1


def test_what_would_explain_a_difference_is_named(run_planner: RunPlanner, tmp_path: Path) -> None:
    """Seen is what the planner itself says of FP8 weights, and BF16 is claimed."""
    request = {"model": "llama-3.1-8b", "gpu": "H100", "gpus": 1, "engine": "vllm", "task": "serve", "dtype": "bf16"}
    request |= {"weight_dtype": "fp8", "input_tokens": 128, "output_tokens": 1024, "concurrency": 4}
    asked = tmp_path / "asked.jsonl"
    asked.write_text(json.dumps(request))
    answer = json.loads(run_planner("estimate", str(asked)).stdout)
    tokens_per_s = answer["output_tokens_per_s"]["value"]
    file = tmp_path / "bench.json"
    given = json.loads((FILES / "vllm_serve.json").read_text())
    lengths = {"total_input_tokens": 128 * 32, "total_output_tokens": 1024 * 32, "max_concurrency": 4, "num_prompts": 32}
    seen = {"output_throughput": tokens_per_s, "mean_ttft_ms": 0, "mean_tpot_ms": 0, "request_throughput": 0}
    file.write_text(json.dumps(given | lengths | seen))
    done = run_planner("--state", str(tmp_path), "measurements", "import", str(file), *H100)
    assert "What would explain it:" in done.stdout
    assert "weight_dtype=fp8 would give" in done.stdout


def test_a_folder_is_read_and_what_is_no_result_is_left_out(run_planner: RunPlanner, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    shutil.copy(FILES / "trtllm_bench.json", folder / "deep")
    (folder / "notes.txt").write_text("nothing of interest")
    done = run_planner("--state", str(tmp_path), "measurements", "import", str(folder))
    assert done.returncode == 0
    assert "notes.txt: no results, left out" in done.stderr
    assert "1 result stored" in done.stderr
    (folder / "deep" / "cut.json").write_bytes((FILES / "vllm_serve.json").read_bytes()[:-40])
    done = run_planner("--state", str(tmp_path / "other"), "measurements", "import", str(folder))
    assert done.returncode == 2
    assert "cut.json" in done.stderr
    assert "cut off" in done.stderr


def test_a_folder_too_large_to_look_through_is_refused(
    run_planner: RunPlanner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.observe.results.sources.MOST_ENTRIES", 3)
    for name in "abcd":
        (tmp_path / "folder" / name).mkdir(parents=True)
    done = run_planner("--state", str(tmp_path), "measurements", "import", str(tmp_path / "folder"))
    assert done.returncode == 2
    assert "has more than 3 files and folders" in done.stderr


def test_an_entry_of_a_folder_that_vanishes_is_passed_over(
    run_planner: RunPlanner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder" / "gone").mkdir(parents=True)
    shutil.copy(FILES / "trtllm_bench.json", tmp_path / "folder")
    listed = os.scandir

    def vanishing(path: str) -> Any:
        if Path(path).name == "gone":
            raise FileNotFoundError(path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    done = run_planner("--state", str(tmp_path), "measurements", "import", str(tmp_path / "folder"))
    assert done.returncode == 0
    assert "1 result stored" in done.stderr


def test_an_address_is_read(run_planner: RunPlanner, tmp_path: Path) -> None:
    class Files(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given: object) -> None:
            super().__init__(*given, directory=str(FILES))  # type: ignore[arg-type]  # handed on as they came

        def log_message(self, format: str, *given: object) -> None:  # noqa: A002  # the name is the library's
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        done = run_planner("--state", str(tmp_path), "measurements", "import", f"{address}/trtllm_bench.json")
        missing = run_planner("--state", str(tmp_path), "measurements", "import", f"{address}/nothing.json")
        server.shutdown()
    assert done.returncode == 0
    assert "1 result stored" in done.stderr
    assert missing.returncode == 2
    assert "HTTP 404" in missing.stderr


@pytest.mark.parametrize(
    "address", ["ftp://host/file.json", "http://elsewhere.example/file.json", "hf://datasets/one", "hf://models/a/b"]
)
def test_addresses_that_are_not_accepted(run_planner: RunPlanner, tmp_path: Path, address: str) -> None:
    done = run_planner("--state", str(tmp_path), "measurements", "import", address)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_nccl_tests_calibrate_the_network(run_planner: RunPlanner, tmp_path: Path) -> None:
    given = ("--set", "gpu=H200 SXM", "--set", "fabric=infiniband")
    done = run_planner("--state", str(tmp_path), "measurements", "import", str(FILES / "nccl_tests.txt"), *given)
    assert done.returncode == 0
    listed = json.loads(run_planner("--state", str(tmp_path), "measurements", "list", "--json").stdout)
    (point,) = [one for one in listed if one["suite"] == "nccl-tests"]
    assert point["value"] == pytest.approx(5.43e9, rel=2e-3)
    again = run_planner("--state", str(tmp_path), "measurements", "import", str(FILES / "nccl_tests.txt"), *given)
    assert "0 measurements imported, 1 already stored" in again.stdout


def test_a_data_set_of_the_hub_is_listed_and_read(run_planner: RunPlanner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers as the hub does to a listing and a file."""
    asked: list[str] = []

    class Hub(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            names = [
                {"type": "file", "path": "runs/one.json"},
                {"type": "file", "path": "README.md"},
                {"type": "directory", "path": "runs"},
            ]
            listed = self.path.startswith("/api/datasets/owner/name/tree/main/")
            text = json.dumps(names).encode() if listed else (FILES / "trtllm_bench.json").read_bytes()
            text = b"# nothing here" if self.path.endswith("README.md") else text
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *given: object) -> None:  # noqa: A002  # the name is the library's
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr("planner.observe.results.sources.HUB", f"http://127.0.0.1:{server.server_port}")
        whole = run_planner("--state", str(tmp_path), "measurements", "import", "hf://datasets/owner/name")
        one = run_planner("--state", str(tmp_path), "measurements", "import", "hf://datasets/owner/name@v2/runs/one.json")
        server.shutdown()
    assert whole.returncode == one.returncode == 0
    assert "1 result stored" in whole.stderr
    assert "README.md: no results, left out" in whole.stderr
    assert asked[-1] == "/datasets/owner/name/resolve/v2/runs/one.json"


def test_a_huge_file_is_told_and_not_read(run_planner: RunPlanner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.observe.results.sources.MOST_FILE_BYTES", 1 << 20)
    huge = tmp_path / "huge.json"
    huge.write_bytes(b" " * (1 << 21))
    done = run_planner("measurements", "import", str(huge))
    assert done.returncode == 2
    assert "is larger than 1 MiB" in done.stderr
