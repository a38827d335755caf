"""Power of a GPU by its activity, and what a power limit or a locked clock slows.

A limit leaves the dynamic power (limit - fixed)/(limit as shipped - fixed). Above a knee voltage falls with the clock, so the clock is
proportional to its cube root; below the knee the voltage is at its minimum, and the clock is proportional to the power itself. The rate of
products is proportional to the clock; reading memory hardly depends on it, because the memory has its own clock.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, added
from planner.engine.performance.operators.chip import Chip
from planner.engine.records.chip import ChipNumbers
from planner.workload.tasks import Workload

FIXED_SHARE, KNEE = 0.3, 0.55
"""Share of the shipped limit that no clock lowers (memory, leakage, idle), and the dynamic share at the knee. By hand from a sweep of an RTX 3090
(llmgarage.ai/power-limit-tokens-per-second-benchmark, 2026-02): prompts at 300, 250, 200 and 150 of 350 W reach 0.94, 0.85, 0.60 and 0.26, the law 0.93,
0.84, 0.58 and 0.28."""
MEMORY_EXPONENT = 0.1
"""Exponent of the clock in the rate of decoding: 0.97, 0.94 and 0.86 at 250, 200 and 150 W in the same sweep (the law gives 0.98, 0.95,
0.88); an RTX 5060 Ti loses less than 1 % at 150 of 180 W (inventivehq.com/blog/gpu-power-limit-tokens-per-watt)."""
LAW_SPREAD = 0.5
"""90 % half width of the slow-down, as a share of its logarithm: one sweep of one GPU. An assumption."""
SUSTAINED_SHARE = 0.85
"""Clock under load ÷ boost clock of the data sheet: a lock above it slows nothing. An assumption."""
LEAST_CLOCK = 0.05

IDLE_SHARE = 0.15
"""Power of a GPU that waits for work with a model loaded, over the limit it ships with: an H200 that does nothing draws 74 of 700 W
(conservemode.com/case-studies.html, 2026), and a CUDA context adds 26 to 50 W on H100 and A100 and 66 W on L40S (arXiv:2605.23918)."""
BUSY_SHARE, HOST_SHARE, LINK_SHARE = 1.0, 0.17, 0.35
"""Power over the limit where products bind, where a step waits for its host, and where it waits for links. The first two: an H100 SXM draws 700 to
724 of 700 W in products of 128 rows and more, 663 in attention, 118 with a context and short kernels launched one by one (docs/evidence/h200.md);
that of links is an assumption."""
MEMORY_SHARE_HBM, MEMORY_SHARE_GDDR = 0.75, 0.85
"""Power over the limit where memory binds: 473 to 577 of 700 W in copies, sums and activations, 497 to 529 in products of 1 and 16 rows on the same H100. Whole
steps of services draw less (137 to 300 of an H200's 700 W, arXiv:2605.11999), as they wait besides. An RTX 5060 Ti draws 173 of 180 W while
decoding (inventivehq.com/blog/gpu-power-limit-tokens-per-watt)."""


def clock_share(power_share: float) -> float:
    """Clock ÷ that at the shipped limit, where the limit is `power_share` of it and products would use all of it."""
    dynamic = (power_share - FIXED_SHARE) / (1 - FIXED_SHARE)
    if dynamic >= KNEE:
        return float(min(1.0, math.cbrt(dynamic)))
    return float(max(LEAST_CLOCK, math.cbrt(KNEE) * dynamic / KNEE))


def capped(chip: Chip, workload: Workload, own_limit_w: float | None = None) -> Chip:
    """`chip` under the power limit and the locked clock of `workload`; unchanged if these slow nothing or their effect is not known.

    `own_limit_w`: the power limit of the machine it is in. A limit applies to a GPU, and slices have their part of it.
    """
    if not workload.power_limit_w and not workload.clock_limit_hz and not own_limit_w:
        return chip
    boost = chip.gpu.boost_clock_hz
    limit_w = min(workload.power_limit_w or math.inf, own_limit_w or math.inf) / chip.gpu.of_whole
    locked = min(1.0, workload.clock_limit_hz / (boost * SUSTAINED_SHARE)) if workload.clock_limit_hz and boost else 1.0
    clock = locked
    if math.isfinite(chip.power_w):
        clock = min(locked, clock_share(limit_w / chip.power_w))
        limit_w = min(limit_w, chip.power_w * (FIXED_SHARE + (1 - FIXED_SHARE) * locked**3))
    if clock >= 1:
        return replace(chip, power_limit_w=limit_w)
    memory = clock**MEMORY_EXPONENT
    rates = {
        name: getattr(chip, name) * clock for name in ("flop_per_s", "attention_flop_per_s", "cycles_per_s", "cdna_flop_per_s")
    }
    rates |= {
        name: getattr(chip, name) * memory
        for name in (
            "bandwidth_bytes_per_s",
            "weight_bandwidth_bytes_per_s",
            "decode_bandwidth_bytes_per_s",
            "quantise_bytes_per_s",
        )
    }
    return replace(
        chip,
        **rates,
        power_doubt=LAW_SPREAD * abs(math.log(clock)),
        power_limit_w=limit_w,
    )


def drawn_w(
    chip: ChipNumbers[Any],
    *,
    products: Floats | float,
    host: Floats | float = 0.0,
    links: Floats | float = 0.0,
    busy: Floats | float = 1.0,
) -> Floats:
    """Mean power of one GPU of each `chip` in W; NaN if the data sheet gives none.

    `products`, `host` and `links`: shares of the working time in which products are the limit, and in which the GPU waits for its host and
    for links; memory is the limit in the rest. `busy`: share of all time in which it works.
    """
    of_memory = np.where(chip.is_hbm, MEMORY_SHARE_HBM, MEMORY_SHARE_GDDR)
    rest = np.maximum(0.0, 1 - products - host - links)
    shares = ((products, BUSY_SHARE), (host, HOST_SHARE), (links, LINK_SHARE), (rest, of_memory))
    at_work_w = added(share * np.minimum(chip.power_w * power, chip.power_limit_w) for share, power in shares)
    return np.asarray(chip.power_w * IDLE_SHARE * (1 - busy) + at_work_w * busy)
