"""Write the table of docs/evidence/memory.md: predicted training memory compared with PyTorch's, over the grid of the tests."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "evidence" / "memory.md"
START, END = "<!-- errors -->", "<!-- end of errors -->"


def table() -> list[str]:
    """Lines of the table, one for each recipe and way of recomputing, and one for all."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "samples"), str(ROOT / "tests" / "oracles")]
    from memory_comparison import compared

    layers: dict[tuple[str, str], list[float]] = defaultdict(list)
    peaks: dict[tuple[str, str], list[float]] = defaultdict(list)
    for case, seen, layer, peak in compared():
        recipe = f"{case.recipe}, adapters" if case.rank else case.recipe
        for key in ((recipe, case.checkpointing), ("all", "")):
            peaks[key].append(abs(peak / seen.peak - 1))
            if case.checkpointing in {"none", "selective"}:
                layers[key].append(abs(layer / seen.layer - 1))
    head = [
        "| recipe | recomputed | steps | a layer, worst | peak, median | peak, 90 % | peak, worst |",
        "|---|---|---|---|---|---|---|",
    ]
    return head + [row(*key, layers.get(key, []), peaks[key]) for key in sorted(peaks, key=lambda key: (key[0] == "all", *key))]


def row(recipe: str, recomputed: str, layers: list[float], peaks: list[float]) -> str:
    """One line; a single step is its own median and its own 90 %."""
    layer = f"{max(layers):.2%}" if layers else "—"
    most = quantiles(peaks, n=10)[-1] if len(peaks) > 1 else peaks[0]
    figures = (median(peaks), min(most, max(peaks)), max(peaks))
    return f"| {recipe} | {recomputed} | {len(peaks)} | {layer} | {' | '.join(f'{figure:.2%}' for figure in figures)} |"


def main() -> None:
    """Replace the table between the two marks."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    PAGE.write_text("\n".join([before + START, *table(), END + after]), encoding="utf-8")


if __name__ == "__main__":
    main()
