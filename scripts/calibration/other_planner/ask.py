"""Ask `aiconfigurator`, or its successor `aisimulate`, in the environment where it is installed: one JSON object per line in and out.

    .venv-second-opinion/bin/python scripts/calibration/other_planner/ask.py < questions > answers

A question is `key`, `replicas`, `config` (of the model, as Hugging Face has it) and the arguments of aiconfigurator's
`cli_estimate`. An answer is `key` with seconds and rates of the whole deployment and `tables`, the release of the engine whose
timings were used, or with `error`. The first line names the versions. This script does not use the planner.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGES = ("aiconfigurator", "aiconfigurator-core", "aisimulate")
INTERFACES = ("aiconfigurator.cli.api", "aisimulate.legacy_cli.api")
"""Modules with `cli_estimate`; the first installed one answers."""
OUT_OF_MEMORY = "it says the run does not fit"


def answered(question: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One answer; `folder`: for the config files that it needs."""
    interface = next(name for name in INTERFACES if find_spec(name.partition(".")[0]))
    replicas, mode = question["replicas"], question["mode"]
    named = {name: value for name, value in question.items() if name not in {"key", "replicas", "config"}}
    model = folder / question["key"]
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(question["config"]))
    try:
        found = import_module(interface).cli_estimate(str(model), **named)
    except Exception as error:  # noqa: BLE001  # whatever it cannot do is its answer, and the other questions go on
        return {"error": reason(error)}
    if (found.kv_cache_warning or "").startswith("OOM"):
        return {"error": OUT_OF_MEMORY}
    rates = {"output_tokens_per_s": found.tokens_per_second * replicas, "requests_per_s": found.seq_per_second * replicas}
    times = {"ttft_s": found.ttft / 1e3, "prefill_s": found.ttft / 1e3}
    if mode != "static_ctx":
        times |= {"tpot_s": found.tpot / 1e3, "request_s": found.request_latency / 1e3}
        rates["decode_tokens_per_s"] = 1e3 / found.tpot if found.tpot else 0.0
    figures = {name: float(value) for name, value in (times | rates).items() if value}
    return figures | {"tables": f"{found.backend_name} {found.backend_version}"}


def reason(error: Exception) -> str:
    """The first line of its message, without folders of this machine."""
    said = re.sub(r"/\S*/", "", (str(error).strip() or "nothing said").splitlines()[0])
    if said.startswith("OOM"):
        return OUT_OF_MEMORY
    in_format = re.search(r"(\w+) perf data missing for quant '(\w+)'", said)
    if in_format:
        return f"it has no timings of {in_format[1]} in {in_format[2]} there"
    missing = re.search(r"(\w[\w ]*?) data missing for", said)
    if missing:
        return f"it has no timings of {missing[1]} of that shape there"
    if "No database found" in said or "Failed to load perf database" in said:
        return "it has no timings of that engine on that part"
    return said[:110]


def versions() -> dict[str, str]:
    """Releases of the installed packages."""
    found = {}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def main() -> None:
    """Answer every line of stdin; all other output goes to stderr."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    out, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps({"versions": versions()}), file=out, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            question = json.loads(line)
            print(json.dumps({"key": question["key"]} | answered(question, Path(folder))), file=out, flush=True)


if __name__ == "__main__":
    main()
