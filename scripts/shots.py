"""Draw the screenshot of README with the program: an SVG of its main screen with the first plan.

It uses the shipped catalogue, this machine, and an empty home, so it contains neither measurements nor settings of yours.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

NAME, SIZE = "screenshot.svg", (120, 40)
LIMIT_S = 20.0
SETTLE_S = 1.5
"""Seconds for the first telemetry to arrive after the plan."""


async def draw(home: Path) -> str:
    """The main screen at `SIZE` columns and rows, with its first plan on it, as SVG."""
    from widgets.app import PlannerApp
    from widgets.options import AppOptions

    app = PlannerApp(AppOptions(state=home / "state", config=home / "config"))
    async with app.run_test(size=SIZE) as pilot:
        async with asyncio.timeout(LIMIT_S):
            while app.plan is None:
                await pilot.pause(0.05)
        await pilot.pause(SETTLE_S)
        return app.export_screenshot(title="gpu-planner")


def main() -> int:
    """Draw it into the named folder, and print its path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        svg = asyncio.run(draw(Path(home)))
    (folder / NAME).write_text(svg, encoding="utf-8")
    print(f"{folder / NAME}  {SIZE[0]}×{SIZE[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
