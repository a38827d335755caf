"""Write the samples of README.md and docs/guide/usage.md: the text block below a command contains what the program prints.

    python scripts/samples.py

A sample may stop early: its last line is then "…", and as many lines as before are kept. Rows of this machine are left out.
"""

from __future__ import annotations

import re
import shlex
import tempfile

from program import ROOT, run_program

PAGES = ("README.md", "docs/guide/usage.md")
COLUMNS = 120
THIS_MACHINE = re.compile(r", here\b")
SAMPLE = re.compile(r"(?<=^```sh\n)(gpu-planner [^\n]*)(\n```\n\n```text\n)(.*?)(?=\n```$)", re.MULTILINE | re.DOTALL)


def printed(command: str) -> list[str]:
    """Lines of stdout of a `gpu-planner` command on 120 columns, without the user's own files and without rows of this machine."""
    with tempfile.TemporaryDirectory() as home:
        done = run_program(shlex.split(command)[1:], home, COLUMNS=str(COLUMNS))
    if done.returncode not in {0, 1} or not done.stdout:
        raise SystemExit(f"{command}: {done.stderr}")
    return [line.rstrip() for line in done.stdout.splitlines() if not THIS_MACHINE.search(line)]


def with_samples(page: str) -> str:
    """The Markdown text `page` with every sample as the program prints it now."""

    def sample(match: re.Match[str]) -> str:
        command, fence, old = match.groups()
        lines, kept = printed(command), old.split("\n")
        if kept[-1] == "…":
            lines = [*lines[: len(kept) - 1], "…"]
        return command + fence + "\n".join(lines)

    return SAMPLE.sub(sample, page)


if __name__ == "__main__":
    for name in PAGES:
        path = ROOT / name
        path.write_text(with_samples(path.read_text(encoding="utf-8")), encoding="utf-8")
