"""Install wheel and sdist of a folder as separate tools, and try the program: version, a plan, screen, licence, notices.

Usage: try_distribution.py FOLDER UV. Everything is installed into a temporary folder that is removed.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from program import own_folders

COMMANDS = (["--version"], ["plan", "llama-3.1-8b-lora", "--gpu", "L4", "--top", "1"], ["schema", "plan"], ["help", "--tree"])
TEXTS = ("LICENSE", "NOTICE")
DRAWN = b"quit"
"""Word of the line of keys at the bottom of every screen."""
MOST_SCREEN_S = 60.0


def tried(built: Path, uv: Path) -> list[str]:
    """Fault of the program installed from `built`; empty: none."""
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
        if fault := screen_fault(f"{folder}/bin/gpu-planner", environment):
            wrong.append(f"{built.name}: gpu-planner on a terminal {fault}")
        texts = {path.name for path in Path(folder).glob("tools/*/lib/python*/site-packages/gpu_planner-*/licenses/*")}
        wrong += [f"{built.name}: no {name} is installed" for name in TEXTS if name not in texts]
    return wrong


def screen_fault(program: str, environment: dict[str, str]) -> str:
    """Fault of the screen of `program` on a new terminal; empty: it was drawn, and closed when `q` was pressed."""
    process, terminal = pty.fork()
    if not process:
        os.environ.clear()
        os.environ.update(environment, TERM="xterm-256color", COLUMNS="120", LINES="40")
        os.execv(program, [program])  # noqa: S606  # the program that was installed, in place of this one
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    shown, asked, next_s, until_s = b"", False, 0.0, time.monotonic() + MOST_SCREEN_S
    while time.monotonic() < until_s:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                shown += os.read(terminal, 1 << 16)
            except OSError:  # its other end is closed
                break
        if DRAWN in shown and time.monotonic() > next_s:
            asked, next_s = bool(os.write(terminal, b"q")), time.monotonic() + 2.0  # first close the welcome screen
    else:
        os.kill(process, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(terminal)
    return "" if asked and code == 0 else f"does not draw itself, or does not leave: it ends with {code}; {shown[-200:]!r}"


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
