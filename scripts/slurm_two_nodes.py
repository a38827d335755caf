#!/usr/bin/env python3
"""Two nodes of Slurm on this machine run the job of `bench --emit slurm`, from submission to the import of its result.

    apt-get install slurmctld slurmd slurm-client munge
    python scripts/slurm_two_nodes.py

Needs root, which Slurm's daemons want, and PyTorch. The nodes have no GPUs: Slurm is configured with two each, and the program in the job's VENV
measures this processor in their place (`cuda:0` becomes `cpu`). All else is the job as it was written: directives, srun, torchrun on each
node, collectives among four ranks, the export by the first node. Everything lies in a temporary folder; the daemons end with the script.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("slurmctld", "slurmd", "sbatch", "munged")
NODES = ("127.0.0.2", "127.0.0.3")
"""Names that always lead to this machine: the ranks meet at the first."""
GPUS = 2
WAIT_S = 300.0
CONFIG = """
ClusterName=two
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=64000 Gres=gpu:{gpus} State=UNKNOWN\n"
WRAPPER = """#!/bin/bash
# the program, which measures this processor instead of a GPU
exec "{python}" -m planner "${{@/cuda:0/cpu}}"
"""


def free_ports(count: int) -> list[int]:
    """Unused ports."""
    with contextlib.ExitStack() as open_ones:
        probes = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def run(*command: str, environment: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Output of a command; ends the script where it fails."""
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Munge, the controller and two nodes; yields the environment for commands of Slurm."""
    host, (port, *ports) = socket.gethostname(), free_ports(1 + len(NODES))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    gpus = [folder / f"gpu{number}" for number in range(GPUS)]
    for file in gpus:
        file.touch()
    nodes = "".join(
        NODE.format(name=name, host=host, port=daemon_port, gpus=GPUS) for name, daemon_port in zip(NODES, ports, strict=True)
    )
    (folder / "slurm.conf").write_text(CONFIG.format(host=host, folder=folder, port=port) + nodes)
    (folder / "gres.conf").write_text(f"NodeName={','.join(NODES)} Name=gpu File={','.join(map(str, gpus))}\n")
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    munged = ("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}")
    files = (f"--pid-file={folder}/munge.pid", f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munge.log")
    daemons = [(*munged, *files), ("slurmctld", "-D"), *(("slurmd", "-D", "-N", name) for name in NODES)]
    processes = []
    try:
        for words in daemons:
            null = subprocess.DEVNULL
            processes.append(subprocess.Popen(words, env=environment, stdin=null, stdout=null, stderr=null))
            time.sleep(1)
        yield environment
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def measured(folder: Path, environment: dict[str, str]) -> Path:
    """Submit the job and wait for the file that it writes."""
    tools = folder / "venv" / "bin"
    tools.mkdir(parents=True)
    (tools / "gpu-planner").write_text(WRAPPER.format(python=sys.executable))
    (tools / "torchrun").write_text(f'#!/bin/bash\nexec "{sys.executable}" -m torch.distributed.run "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    asked = (sys.executable, "-m", "planner", "bench", "--emit", "slurm", "--suite", "collectives")
    where = ("--gpu", "H100 SXM5 80GB", "--ranks", str(GPUS), "--nodes", "2")
    (folder / "gpu-planner.sbatch").write_text(run(*asked, *where, environment=environment, cwd=ROOT))
    environment = {**environment, "VENV": str(folder / "venv"), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    print(run("sbatch", "gpu-planner.sbatch", environment=environment, cwd=folder).strip(), flush=True)
    until_s = time.monotonic() + WAIT_S
    while time.monotonic() < until_s:
        waiting = run("squeue", "--noheader", environment=environment)
        if not waiting.strip():
            break
        time.sleep(1)
    found = list(folder.glob("gpu-planner-*.json"))
    if not found:
        logs = "\n".join(path.read_text() for path in [*folder.glob("gpu-planner-*.log"), *folder.glob("slurm*.log")])
        raise SystemExit(f"the job left no result:\n{logs}")
    return found[0]


def main() -> None:
    """Run everything and print the imported results."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        raise SystemExit(
            f"needs root and Slurm: {', '.join(missing) or 'not root'} (Debian: slurmctld, slurmd, slurm-client, munge)"
        )
    with tempfile.TemporaryDirectory(prefix="slurm-") as temporary:
        folder = Path(temporary)
        with cluster(folder) as environment:
            result = measured(folder, environment)
        state = ("--state", str(folder / "state"))
        print(run(sys.executable, "-m", "planner", *state, "measurements", "import", str(result), cwd=ROOT), end="")
        print(run(sys.executable, "-m", "planner", *state, "measurements", "list", cwd=ROOT), end="")


if __name__ == "__main__":
    main()
