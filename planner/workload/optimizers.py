"""Optimizers: the states of each per trained parameter, and the temporaries of its step.

To add one, add an entry to `presets/optimizers.toml`: the accepted values of a workload, the choices of the form and the published schema
follow from it. Symbols: w bytes of a full state (2 where everything is in 16 bit, else 4) · h width · f feed-forward width ·
o share of the parameters that are outside the layers (embedding and head) · m, n the smaller and the larger side of a matrix.
"""

import msgspec

from planner.paths import read_shipped_part
from planner.workload.architecture import Architecture
from planner.workload.matrices import matrices

EIGHT_BIT_STATE = 1 + 4 / 256
"""Bytes of a block-wise quantised state of bitsandbytes: one byte, and an FP32 absolute maximum per block of 256."""
CAST_BYTES = 6
"""Bytes of a value cast between 16 bit and FP32: read in one, written in the other."""


class Optimizer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One optimizer, as PyTorch or bitsandbytes implements it."""

    name: str
    full_states: float = 0.0
    """States of w bytes for every trained parameter."""
    outside_states: float = 0.0
    """Further such states for the parameters outside the layers."""
    quantised_states: float = 0.0
    """States of `quantised_bytes` for every trained parameter."""
    quantised_bytes: float = EIGHT_BIT_STATE
    factored: bool = False
    """True if there is one state for each row and each column of a matrix, instead of one for each parameter."""
    full_temporaries: float = 0.0
    """Temporaries of w bytes for every trained parameter, which a step allocates for all parameters at once."""
    outside_temporaries: float = 0.0
    """Further such temporaries for the parameters outside the layers."""
    matrix_temporaries: float = 0.0
    """Temporaries of w bytes for every element of the largest matrix, allocated matrix by matrix."""
    orthogonal_iterations: int = 0
    """Iterations of Newton and Schulz that make the update of each of the layers' matrices orthogonal."""
    step_passes: float = 0.0
    """Reads and writes of a parameter in w bytes in a step of several kernels; 0: one kernel, which moves each value once each way."""
    wide_passes: float = 0.0
    """Reads and writes in FP32 instead, in a step that widens gradient and weight first and rounds the new weight."""
    updates: bool = True
    """True if it changes the weights; without an update no gradient is kept and nothing is moved."""
    source: str

    def state_bytes(self, width_bytes: float, a: Architecture) -> float:
        """Bytes of states per trained parameter, w·(full + outside·o) + quantised; factored: w·(1/h + 1/f)."""
        full = width_bytes * (self.full_states + self.outside_states * (a.embedding + a.head) / a.total)
        factored = width_bytes * (1 / a.width + 1 / max(1, a.ffn)) if self.factored else 0.0
        return full + self.quantised_states * self.quantised_bytes + factored

    def step_traffic_bytes(self, width_bytes: float, a: Architecture, *, fused: bool = False) -> float:
        """Bytes that a step moves per trained parameter: states, gradient, weight and new weight; all traffic of a step of several kernels.

        `fused`: one kernel whatever the optimizer, as processors update states in host memory (DeepSpeed's CPUAdam).
        """
        if not self.updates:
            return 0.0
        if self.wide_passes and not fused:
            return 4 * self.wide_passes + 3 * CAST_BYTES * (width_bytes < 4)
        if self.step_passes and not fused:
            return width_bytes * self.step_passes
        return 2 * self.state_bytes(width_bytes, a) + 3 * width_bytes

    def step_flop(self, a: Architecture) -> float:
        """FLOP of a step per trained parameter beyond elementwise work: (4·m²·n + 2·m³) for each iteration and matrix."""
        if not self.orthogonal_iterations:
            return 0.0
        flop = 0.0
        for one in matrices(a):
            side, other = sorted((one.inputs, one.outputs))
            flop += one.parameters * (4 * side + 2 * side * side / other)
        return self.orthogonal_iterations * flop / a.total

    def temporary_bytes(self, width_bytes: float, a: Architecture) -> float:
        """Bytes of temporaries per trained parameter, without those of the largest matrix."""
        return width_bytes * (self.full_temporaries + self.outside_temporaries * (a.embedding + a.head) / a.total)


OPTIMIZERS = {one.name: one for one in read_shipped_part(tuple[Optimizer, ...], "optimizer", "optimizers.toml")}
