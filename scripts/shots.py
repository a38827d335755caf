"""Screenshots of the program, drawn by the program: SVGs of its main screen at three sizes.

They use the shipped catalogue, this machine, and an empty home, so neither measurements nor settings of yours are in them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

SIZES = {"screenshot.svg": (120, 40), "screenshot-80x24.svg": (80, 24), "screenshot-200x50.svg": (200, 50)}
LIMIT_S = 20.0
SETTLE_S = 1.5
"""Time for the first telemetry to arrive once the plan is there."""


async def draw(size: tuple[int, int], home: Path) -> str:
    """The main screen at `size` columns and rows, with its first plan on it, as SVG."""
    from widgets.app import PlannerApp
    from widgets.options import AppOptions

    app = PlannerApp(AppOptions(state=home / "state", config=home / "config"))
    async with app.run_test(size=size) as pilot:
        async with asyncio.timeout(LIMIT_S):
            while app.plan is None:
                await pilot.pause(0.05)
        await pilot.pause(SETTLE_S)
        return app.export_screenshot(title="gpu-planner")


def main() -> int:
    """Write one file per size into the folder named, and say so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in SIZES.items():
        with tempfile.TemporaryDirectory() as home:
            svg = asyncio.run(draw(size, Path(home)))
        (folder / name).write_text(svg, encoding="utf-8")
        print(f"{folder / name}  {size[0]}×{size[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
