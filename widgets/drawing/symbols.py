"""The glyphs the screen is drawn with: one set for Unicode terminals, one for plain ASCII."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from planner.engine.answers.figure import Basis
    from planner.engine.answers.plan import Verdict


class Symbols(NamedTuple):
    """One level of glyphs, those of Unicode terminals by default; every value is a single cell unless said otherwise."""

    basis: Mapping["Basis", str] = {"measured": "●", "transferred": "◐", "public": "○", "spec": "·"}
    verdict: Mapping["Verdict", str] = {
        "fits": "✓",
        "may-not-fit": "?",
        "misses-target": "~",
        "does-not-fit": "✗",
        "not-supported": "–",
    }
    patterns: Mapping[str, str] = {
        "weights": "█",
        "gradients": "▚",
        "optimizer": "▓",
        "activations": "▒",
        "logits": "▞",
        "kv_cache": "▓",
        "buffers": "≡",
        "overhead": "░",
    }
    """Memory component -> fill, so that the stack reads without colour."""
    classes: Mapping[str, str] = {"launch": "╱", "host": "╳", "bubble": "·", "rollout": "═", "new weights": "╲", "scoring": "║"}
    """Class of operator -> fill, of those whose colour another class has too."""
    filled: str = "■"
    empty: str = "·"
    cursor: str = "▸"
    marked: str = "◆"
    """Sign of a row that is to be compared."""
    divider: str = "│"
    headroom: str = "┊"
    ellipsis: str = "…"
    ascending: str = "▲"
    descending: str = "▼"
    drop_down: str = "▾"
    folded: str = "▸"
    """Sign of a group that is folded; an open one has `drop_down`."""
    done: str = "✓"
    failed: str = "✗"
    warning: str = "!"
    running: str = "▸"
    arrow: str = "→"
    times: str = "×"
    """Between the factors of a formula."""
    squared: str = "²"
    cubed: str = "³"
    """Behind the edge of a square, and of a cube."""
    dot: str = "·"
    sparks: str = "▁▂▃▄▅▆▇█"
    """Lowest to highest, as many cells as levels."""
    changed: str = "•"
    """Sign of a field that is not as its preset has it."""
    held: str = "▼"
    """Sign of a time in which a clock was held back."""
    mark: str = "├─┤"
    """Beginning, middle and end of a stretch of time."""


UNICODE = Symbols()

KEYS_IN_WORDS = str.maketrans({"↓": "down", "↑": "up", "←": "left", "→": "right", "⇧": "shift+"})
"""Signs of keys -> how they are written with plain signs."""
ASCII = Symbols(
    basis={"measured": "*", "transferred": "c", "public": "o", "spec": "."},
    verdict={"fits": "+", "may-not-fit": "?", "misses-target": "!", "does-not-fit": "x", "not-supported": "-"},
    patterns={
        "weights": "#",
        "gradients": "%",
        "optimizer": "=",
        "activations": "+",
        "logits": "&",
        "kv_cache": "=",
        "buffers": "-",
        "overhead": ":",
    },
    classes={"launch": "/", "host": "~", "bubble": ".", "rollout": "@", "new weights": "^", "scoring": "*"},
    filled="#",
    empty="_",
    cursor=">",
    marked="@",
    divider="|",
    headroom="!",
    ellipsis="..",
    ascending="<",
    descending=">",
    drop_down="v",
    folded=">",
    done="+",
    failed="x",
    warning="!",
    running=">",
    arrow="->",
    times="*",
    squared="^2",
    cubed="^3",
    dot="-",
    sparks="_.-=#",
    changed=":",
    held="!",
    mark="[-]",
)
