#!/usr/bin/env python3
"""A day of a fleet in a real Prometheus, and the cost of `gpu-planner rightsize --prometheus` on it: seconds, bytes, memory.

    python scripts/fleet_day.py [--gpus 1000] [--hours 24] [--step 60] [--keep FOLDER]

Needs `prometheus` and `promtool` (Debian package prometheus). The fleet is made up: hosts of eight H100, one of them slow, one throttled
by heat, one with uncorrectable memory errors; a third idle for a quarter of the day. The sums hold for a server on the same machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from itertools import count, takewhile
from pathlib import Path
from typing import TextIO

NODE = 8
SLOW, HOT, FAULTY = 5, 10, 13
"""Hosts that differ from the others: clock and work of 0.72; held back by heat; memory errors."""
JOB_HOSTS = 4
METRICS = {
    "DCGM_FI_PROF_SM_ACTIVE": "sm",
    "DCGM_FI_PROF_SM_OCCUPANCY": "occupancy",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "tensor",
    "DCGM_FI_PROF_DRAM_ACTIVE": "dram",
    "DCGM_FI_DEV_GPU_UTIL": "util",
    "DCGM_FI_DEV_FB_USED": "used",
    "DCGM_FI_DEV_FB_FREE": "free",
    "DCGM_FI_DEV_POWER_USAGE": "power",
    "DCGM_FI_DEV_SM_CLOCK": "clock",
    "DCGM_FI_DEV_MAX_SM_CLOCK": "max_clock",
    "DCGM_FI_DEV_GPU_TEMP": "temperature",
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": "reasons",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "ecc",
    "DCGM_FI_PROF_NVLINK_TX_BYTES": "link",
}


def value_of(what: str, gpu: int, at_s: float) -> float:
    """The value of one figure of one GPU at `at_s`, relative to the end of the day and so negative: every run makes the same day."""
    host = gpu // NODE
    idle = host % 3 == 0 and (at_s // 21600) % 4 == 2
    wave = 1 + 0.02 * math.sin(at_s / 600 + gpu)
    slow = 0.72 if host == SLOW else 1.0
    busy = {"sm": 0.8 * wave, "occupancy": 0.4, "tensor": 0.45 * wave * slow, "dram": 0.35 * wave * slow, "util": 99.0}
    if what in busy:
        return 0.0 if idle else busy[what]
    plain = {
        "used": 60000.0,
        "free": 20000.0,
        "power": 120.0 if idle else 600.0 * slow,
        "clock": 345.0 if idle else 1980.0 * slow if host != HOT else 1300.0,
        "max_clock": 1980.0,
        "temperature": 40.0 if idle else 65.0,
        "reasons": 1.0 if idle else 32.0 if host == HOT else 0.0,
        "ecc": 2.0 if host == FAULTY and gpu % NODE == 3 else 0.0,
        "link": 0.0 if idle else 5e9 * wave,
    }
    return plain[what]


def labels_of(gpu: int) -> str:
    """Labels as from dcgm-exporter on Kubernetes, including a label in UTF-8."""
    host, index = divmod(gpu, NODE)
    return (
        f'gpu="{index}",UUID="GPU-{gpu:08x}-0000-0000-0000-000000000000",device="nvidia{index}",modelName="NVIDIA H100 80GB HBM3",'
        f'Hostname="node{host:03d}",instance="10.0.{host // 250}.{host % 250}:9400",job="dcgm",namespace="train",'
        f'pod="llm-{host // JOB_HOSTS}-{host % JOB_HOSTS}",hpc_job="{1000 + host // JOB_HOSTS}",team="größe"'
    )


def openmetrics(gpus: int, start_s: float, end_s: float, step_s: float, out: TextIO) -> None:
    """Write the day in OpenMetrics text, one metric after the other."""
    labels = [labels_of(gpu) for gpu in range(gpus)]
    for name, what in METRICS.items():
        out.write(f"# TYPE {name} gauge\n")
        for gpu in range(gpus):
            head = f"{name}{{{labels[gpu]}}} "
            times = takewhile(lambda at_s: at_s <= end_s, count(start_s, step_s))
            out.write("".join(f"{head}{value_of(what, gpu, at_s - end_s):.6g} {at_s:.0f}\n" for at_s in times))
    out.write("# EOF\n")


def make_blocks(folder: Path, gpus: int, hours: float, step_s: float) -> None:
    """A data folder of Prometheus at `folder` that ends now, in blocks as long as a server makes them over time."""
    end_s = math.floor(time.time())
    text = folder.with_suffix(".om")
    with text.open("w", encoding="utf-8") as out:
        openmetrics(gpus, end_s - hours * 3600, end_s, step_s, out)
    tool = [shutil.which("promtool") or "promtool", "tsdb", "create-blocks-from", "--max-block-duration=24h"]
    tool += ["openmetrics", str(text), str(folder)]
    subprocess.run(tool, check=True, stdout=subprocess.DEVNULL)
    text.unlink()


def serve(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """A Prometheus on `folder` that scrapes nothing; waits until it answers."""
    config = folder.with_suffix(".yml")
    config.write_text("scrape_configs: []\n")
    command = [shutil.which("prometheus") or "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}"]
    options = [f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=10y", "--log.level=error"]
    process = subprocess.Popen([*command, *options])
    for _ in range(200):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=1):
                return process
        except OSError:
            time.sleep(0.1)
    process.kill()
    raise SystemExit("prometheus did not begin to answer")


def main() -> None:
    """Make the day, query it, and print the cost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=1000)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--step", type=float, default=60.0)
    parser.add_argument("--port", type=int, default=19090)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary) / "data"
        if not folder.exists():
            began_s = time.monotonic()
            make_blocks(folder, given.gpus, given.hours, given.step)
            print(f"made in {time.monotonic() - began_s:.0f} s", flush=True)
        process = serve(folder, given.port)
        try:
            ask(given.port, given.hours, process.pid)
        finally:
            process.terminate()
            process.wait()


def ask(port: int, hours: float, server: int) -> None:
    """Query in a separate process, twice: the second time the server's pages are in memory. `server`: its process."""
    asked = ["rightsize", "--prometheus", f"http://127.0.0.1:{port}", "--seconds", str(hours * 3600), "--json"]
    for turn in ("first", "second"):
        began_s, served_s = time.monotonic(), processor_s(server)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
            child = subprocess.Popen([sys.executable, "-m", "planner", *asked], stdout=out, stderr=said)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            said.seek(0)
            gpus, words = len(json.load(out)["gpus"]), said.read().decode().strip()
        seconds, served_s = time.monotonic() - began_s, processor_s(server) - served_s
        ours = f"{used.ru_utime + used.ru_stime:.2f} s of a processor and {used.ru_maxrss / 1024:.0f} MiB here"
        print(f"{turn}: {gpus} GPUs in {seconds:.2f} s: {ours}, {served_s:.2f} s of the server's; {words}", flush=True)


def processor_s(process: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
