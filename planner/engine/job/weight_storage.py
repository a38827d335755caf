"""Bytes of stored weights, as a job counts them."""

from __future__ import annotations

from functools import lru_cache

from planner.engine.records.job import BYTES_BY_KIND
from planner.errors import Problems, nearest_names
from planner.workload.architecture import Architecture
from planner.workload.weights import FORMATS, WeightFormat

BITSANDBYTES = {"nf4": 70e-6, "fp4": 70e-6, "nf4-dq": 105e-6, "int8": 300e-6}
"""Formats of bitsandbytes with their host time in seconds (`UNPACK_HOST_S`)."""
UNPACK_HOST_S = BITSANDBYTES | dict.fromkeys(("awq", "awq-g64", "awq-g32"), 22e-6)
"""Host time that modules of packed weights add to one product in eager mode. bitsandbytes: published rates of Llama 2 7B and 13B, Falcon 7B and phi-1.5 against
16 bit on one A100 (litgpt's table; 40 to 140, 90 to 140, 440 us). AutoAWQ: of Mistral 7B and Vicuna 7B (optimum-benchmark; 15 and 18 us) and of Qwen2 (31 to 34 us)."""

UNPACKED_BYTES = 4.0
"""Bytes written and read again for each weight that one kernel unpacks to 16 bit."""
GPTQ_UNPACKED_BYTES = 10.0
"""Bytes written and read again in training, the mean of a forward and a backward pass: AutoGPTQ's trainable layers unpack with PyTorch's
operators (shift to INT32, INT8, mask, less zero point, times scale: 18 B), and keep the 16-bit weights, which backward reads (2 B)."""


def weight_numbers(name: str, key: str, architecture: Architecture, problems: Problems) -> dict[str, float]:
    """Bytes of `architecture` stored in the format `name`, by the names of `StoredWeights`.

    An unknown format is added to `problems` under `key`.
    """
    found = FORMATS.get(name)
    if found is None:
        problems.add(key, f"{name!r} is not accepted; it has to be one of {', '.join(FORMATS)}.", nearest_names(name, FORMATS))
    packed = found is not None and found.bits < 16 and name not in {"fp8", "nvfp4"}
    return {
        **(uniform_bytes(2.0) if found is None else _mean_bytes(found, architecture)),
        "weight_bits_packed": float(packed),
        "unpack_host_s": UNPACK_HOST_S.get(name, 0.0),
        "gptq": float(name.startswith("gptq")),
        "bitsandbytes": float(name.startswith("nf4")),
        "mxfp4_experts": float(name.startswith("mxfp4")),
    }


def uniform_bytes(each: float) -> dict[str, float]:
    """Bytes per parameter by kind where every parameter has `each` bytes."""
    return dict.fromkeys(BYTES_BY_KIND, each)


@lru_cache(maxsize=256)
def _mean_bytes(stored: WeightFormat, architecture: Architecture) -> dict[str, float]:
    """Mean bytes per parameter by kind."""
    found = stored.stored(architecture)
    return {
        "linear_bytes": found.linear,
        "mixing_bytes": found.mixing,
        "mlp_bytes": found.mlp,
        "expert_bytes": found.expert,
        "dense_bytes": found.dense,
        "other_bytes": found.other,
    }
