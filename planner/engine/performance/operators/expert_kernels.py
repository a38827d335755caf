"""Kernels that compute the routed experts of a layer: their time apart from arithmetic and the reading of weights.

    t = L + M·E' + ((FLOP / (F·rate))^p + (weights / (B·read))^p)^(1/p) + (own·r' + every·r)·(2h + inner·f/tp) elements ÷ bandwidth

Symbols: E' experts of a rank · r' tokens routed to them, r tokens routed to any · h width · f inner width of an expert · F, B, p of the device.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.engine.columns import Floats, Rows, Table


class ExpertKernels(NamedTuple):
    """Numbers of the kernels for one kind of weights, or columns of many."""

    latency_s: Floats | float
    """L: choosing, sorting and gathering tokens, two grouped products, the activation, the weighted sum."""
    expert_s: Floats | float
    """M: additional time for each expert of a rank, even without tokens."""
    read: Floats | float
    """Rate of reading weights ÷ that of single products."""
    rate: Floats | float
    """Rate of arithmetic ÷ that of single products."""
    own: Floats | float
    """Number of times that tokens routed to a rank's experts are moved: permutation, activation, rounding, tiles that are not full."""
    every: Floats | float
    """Number of times that all routed tokens are moved, wherever their experts are."""
    inner: Floats | float = 0.0
    """Elements of the inner width that are moved with each of them; 0 if `rate` includes their time."""


KINDS = ("16 bit", "8 bit blocks", "8 bit", "4 bit", "packed")
"""What products compute in. "8 bit blocks": services, as mixtures are published with scales of blocks; "8 bit": training, whose recipes have either;
"packed": weights that are unpacked to 16 bit, as those of 8 bit are where products compute in 16."""


def _together(read_and_own: dict[str, tuple[float, float]]) -> dict[str, ExpertKernels]:
    """Kernels with only these two figures fitted."""
    return {kind: ExpertKernels(29e-6, 0.0, read, 1.0, own, 0.0, 3.0) for kind, (read, own) in read_and_own.items()}


ANY = _together(
    {"16 bit": (1.0, 3.8), "8 bit blocks": (1.0, 6.1), "8 bit": (1.0, 4.8), "4 bit": (1.3, 2.2), "packed": (1.0, 9.0)},
)
"""Kernels of all engines together, for training and for services but TensorRT-LLM's: scripts/calibration/fit_experts.py on the timings of aiconfigurator-core 0.12.0
(2026-11-22): fused experts of vLLM 0.24, SGLang 0.5.14 and TensorRT-LLM 1.3 on Hopper, Blackwell and Ada, 1 to 16,384 tokens, balanced; median error 14 to 29 %;
one engine left out is met with a bias of 1 to 15 % in 16 and 8 bit, up to 37 % in 4 bit, and packed weights of TensorRT-LLM take twice as long. Those of
blocks apart (2026-11-26): 5.8 to 6.3 without one engine, which is then met with a bias of 2 to 5 %."""
PERMUTED = {
    "16 bit": ExpertKernels(29e-6, 0.0, 1.04, 0.87, 3.3, 0.12),
    "8 bit blocks": ExpertKernels(24e-6, 0.24e-6, 1.1, 0.56, 7.8, 0.12),
    "4 bit": ExpertKernels(39e-6, 0.07e-6, 1.16, 0.75, 0.97, 0.1),
    "packed": ExpertKernels(85e-6, 0.0, 1.08, 1.0, 20.0, 5.8),
}
"""Kernels of TensorRT-LLM before Blackwell, mostly from CUTLASS, which first sort the tokens by expert; packed ones are Triton's on Hopper."""
PERMUTED_ON_BLACKWELL = {
    "16 bit": ExpertKernels(28e-6, 0.02e-6, 1.12, 1.08, 4.0, 0.24),
    "8 bit blocks": ExpertKernels(28e-6, 0.3e-6, 1.0, 0.78, 3.3, 0.21),
    "4 bit": ExpertKernels(34e-6, 0.15e-6, 1.41, 0.75, 4.75, 0.33),
    "packed": ExpertKernels(42e-6, 0.0, 0.36, 0.33, 35.8, 1.5),
}
"""Kernels of TensorRT-LLM on Blackwell, of CUTLASS and DeepGEMM. Source of both tables: scripts/calibration/fit_expert_kernels.py on the timings of TensorRT-LLM 1.3rc20 in the same tables (2026-11-26),
1 to 16,384 tokens, balanced and by a power law, up to 8 ranks of tensor and 16 of expert parallelism, with the kernels that it chooses by itself; median
error 6 to 14 %, of a GPU that is left out 6 to 16 %, of packed weights on Hopper 22 %."""
FILLED = ANY | {"packed": ExpertKernels(29e-6, 0.0, 1.0, 1.0, 6.5, 0.0, 1.9)}
"""Kernels of llama.cpp, whose tiles are filled up (`filled_rows`). Bytes that a routed token moves, counted in its operators (FP32 between them, a rounding to
8 bit of 5.1 bytes before each product): 26 h (two roundings, the output, its weighing and adding up) + 25 f (gate and up written, read and multiplied,
the product rounded)."""
MATRIX_VECTOR_ROWS, TILE_STEP = 8, 8
"""Tokens of a pass up to which llama.cpp multiplies without tiles (MMVQ_MAX_BATCH_SIZE), and the step between widths of tiles."""
ALIKE, ALIKE_OF_ANY = 0.95, 0.88
"""Exponents of the tokens of a pass that choose experts unlike each other: of `PERMUTED` as fitted to choices by a power law of exponent 1.01; of `ANY` by hand
from the times of 256 experts of which 8 are chosen by that law over those of all of them, 8 to 128 tokens (TensorRT-LLM 1.3 on an H200)."""
VULKAN_TILE = 64.0
"""Widest tile of llama.cpp's products of experts on parts that are not NVIDIA's: Vulkan leaves out the tile of 128 there (`mul_mat_id_l` of ggml-vulkan.cpp
is false for AMD and for Intel without cooperative matrices). Since 2026-09 ROCm's tiles are narrower still on RDNA 3 and 4 (ggml-org/llama.cpp#28552)."""
HOPPER, NO_BLOCKS_TP = 9.0, 8
"""Compute capability from which DeepGEMM's kernels exist, and the tensor parallelism with which vLLM does not use them for experts."""
DATA_CENTRE_BLACKWELL = (10.0, 11.0)
"""Compute capabilities from the first to below the second. Grouped products of training with fused activation and rounding exist for these GPUs."""
_FAMILIES = (ANY, PERMUTED, PERMUTED_ON_BLACKWELL, FILLED)
_NUMBERS = np.array([[family.get(kind, family["8 bit blocks"]) for kind in KINDS] for family in _FAMILIES])


def expert_kernels(t: Table) -> ExpertKernels:
    """Numbers of the kernels of every row, shape [rows]."""
    return ExpertKernels(*np.moveaxis(_NUMBERS[_family(t), _kind(t)], -1, 0))


def moved_once(t: Table) -> Floats:
    """1 where grouped products of training include activation and rounding (CuTeDSL), so that each element is moved once."""
    return (t.engine.fuses_experts > 0) * (t.job.narrow_bytes == 1) * _on_blackwell(t)


def _on_blackwell(t: Table) -> Floats:
    since, before = DATA_CENTRE_BLACKWELL
    return np.where((t.chip.compute_capability >= since) & (t.chip.compute_capability < before), 1.0, 0.0)


def _family(t: Table) -> Rows:
    permutes = t.engine.permutes_tokens * (t.job.train <= 0)
    return np.where(t.engine.expert_tile > 0, _FAMILIES.index(FILLED), permutes * (1 + _on_blackwell(t))).astype(np.int64)


def filled_rows(t: Table, rows: Floats, per_expert: Floats) -> Floats:
    """Rows computed for an expert with `per_expert` of the `rows` tokens of a pass: whole tiles, the last one half full on average."""
    widest = np.where(np.isfinite(t.chip.compute_capability), t.engine.expert_tile, np.minimum(t.engine.expert_tile, VULKAN_TILE))
    tile = np.minimum(widest, TILE_STEP * np.ceil(rows / TILE_STEP))
    tiled = (tile > 0) & (rows > MATRIX_VECTOR_ROWS) & (t.job.weight_bits_packed > 0)
    return np.where(tiled, tile * np.maximum(1.0, per_expert / np.where(tile > 0, tile, 1.0) + 0.5), per_expert)


def added_rows(t: Table) -> Floats:
    """Rows of zeros that the grouped products of a layer compute in addition: block - 1 for each expert, as if every last block held one token.

    vLLM lays out M·e + E·(block - 1) rows for DeepGEMM (`compute_aligned_M`), which multiplies all of them, unless 8 ranks share each
    expert (`VLLM_MOE_USE_DEEP_GEMM` is off there, vllm-project/vllm#29346).
    """
    in_blocks = (t.engine.expert_block > 0) & (t.job.narrow_bytes == 1) & (t.job.expert_bytes == 1) & (t.layout.tp != NO_BLOCKS_TP)
    return np.where(in_blocks & (t.chip.compute_capability >= HOPPER), t.model.experts * (t.engine.expert_block - 1), 0.0)


def added_bytes(t: Table) -> Floats:
    """Bytes that one GPU moves for `added_rows`, counted in their operators.

    Inputs in 8 bit are read and outputs in 16 bit written (3 h), gate and up written and read, their product in 8 bit written and read (10 f).
    """
    m, s = t.model, t.layout
    return added_rows(t) / s.ep * (3 * m.expert_width + 10 * m.expert_ffn * s.ep / s.expert_gpus)


def _kind(t: Table) -> Rows:
    j = t.job
    unpacked = (j.weight_bits_packed > 0) | ((j.narrow_bytes == 0) & (j.expert_bytes < j.activation_bytes))
    wide = np.where(unpacked, KINDS.index("packed"), KINDS.index("16 bit"))
    eight = np.where(j.train > 0, KINDS.index("8 bit"), KINDS.index("8 bit blocks"))
    return np.where(j.narrow_bytes > 0, np.where(j.expert_bytes < 1, KINDS.index("4 bit"), eight), wide)
