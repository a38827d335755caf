"""Install wheel and sdist of a folder, each as a tool of its own, and run the program: its version, a plan, its licence and notices.

Usage: try_distribution.py FOLDER UV. What is installed lies in a temporary folder and goes with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from program import own_folders

COMMANDS = (["--version"], ["plan", "llama-3.1-8b-lora", "--gpu", "L4", "--top", "1"], ["schema", "plan"], ["help", "--tree"])
TEXTS = ("LICENSE", "NOTICE")


def tried(built: Path, uv: Path) -> list[str]:
    """Fault of the program that `built` installs; empty: nothing."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **own_folders(folder), "UV_TOOL_DIR": f"{folder}/tools", "UV_TOOL_BIN_DIR": f"{folder}/bin"}
        environment.pop("PYTHONPATH")
        installed = subprocess.run(
            [str(uv), "tool", "install", "--quiet", str(built)], env=environment, capture_output=True, text=True, check=False
        )
        if installed.returncode:
            return [f"{built.name} cannot be installed: {installed.stderr.strip()}"]
        for words in COMMANDS:
            done = subprocess.run(
                [f"{folder}/bin/gpu-planner", *words], env=environment, cwd=folder, capture_output=True, text=True, check=False
            )
            if done.returncode or not done.stdout:
                wrong.append(f"{built.name}: gpu-planner {' '.join(words)} ends with {done.returncode}: {done.stderr.strip()}")
        texts = {path.name for path in Path(folder).glob("tools/*/lib/python*/site-packages/gpu_planner-*/licenses/*")}
        wrong += [f"{built.name}: no {name} is installed" for name in TEXTS if name not in texts]
    return wrong


def main() -> int:
    """Try every distribution; 0: all run."""
    folder, uv = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    distributions = sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])
    wrong = [line for built in distributions for line in tried(built.resolve(), uv)]
    for line in wrong or [f"{', '.join(built.name for built in distributions)}: installed and run"]:
        print(line)
    return 1 if wrong or len(distributions) != 2 else 0


if __name__ == "__main__":
    sys.exit(main())
