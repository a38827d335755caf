"""Sum of two limits of one piece of work where neither is far below the other."""

from __future__ import annotations

import numpy as np

from planner.engine.columns import Floats


def soft_maximum(a: Floats, b: Floats, knee: Floats | float) -> Floats:
    """(a^p + b^p)^(1/p), computed on the ratio so that nothing overflows."""
    large, small = np.maximum(a, b), np.minimum(a, b)
    ratio = small / np.where(large > 0, large, 1.0)
    result: Floats = large * (1 + ratio**knee) ** (1 / knee)
    return result
