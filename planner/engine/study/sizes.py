"""Sizes of the study of compute per dollar: the depth law and the places along an axis."""

from __future__ import annotations

import math

import msgspec

from planner.engine.answers.study import Axis
from planner.errors import Problem, UserError

WIDTHS = (256, 512, 768, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144)
SEQUENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MOST_PARAMETERS = 8e9
"""Parameters above which models are left out: a depth law can make wide ones larger than any of the study's GPUs trains."""
DEFAULT_GPUS = (("L4",), ("A100 80GB SXM", "A100 80GB PCIe"), ("H100 SXM5 80GB", "H100 PCIe"))
"""Families of GPUs; the study uses the first of each that the price set has."""
DEFAULT_PRICES = "runpod-secure"
DEPTH_LAWS = ("printed", "log2")


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a study."""

    axis: Axis = "width"
    depth_law: str = "printed"
    """'printed': depth = 0.77·log2(width) - 2.5; 'log2': its left side read as log2(depth); a number: that many layers."""
    vocabulary: int = 151936
    """Vocabulary of Qwen3. It dominates small models; 32768 is what the study measures on a CPU."""
    sequences: int = 4
    """Sequences per step, along the axis of width."""
    sequence: int = 256
    """Tokens."""
    width: int = 1024
    """Width of the one model, along the axis of batch."""
    widths: tuple[int, ...] = WIDTHS
    batches: tuple[int, ...] = SEQUENCES


class Size(msgspec.Struct, frozen=True):
    """One point on the axis."""

    width: int
    depth: int
    sequences: int


def depth_of(width: int, law: str) -> int:
    """Layers at `width`, rounded, at least one; raises `UserError` for an unknown law."""
    if law.isdigit() and int(law) > 0:
        return int(law)
    if law not in DEPTH_LAWS:
        raise UserError(
            Problem("", "depth_law", f"{law!r} is not a depth law: use {', '.join(DEPTH_LAWS)}, or a number of layers.")
        )
    right = 0.77 * math.log2(width) - 2.5
    return max(1, round(2**right if law == "log2" else right))


def sizes_of(study: Study) -> list[Size]:
    """Points along the axis; raises `UserError` for settings that cannot be studied."""
    widths = study.widths if study.axis == "width" else (study.width,)
    wrong = [width for width in widths if width <= 0 or width % 256]
    if wrong:
        raise UserError(Problem("", "width", f"{wrong[0]} is not accepted; a multiple of 256 is."))
    if study.axis == "width":
        return [Size(width, depth_of(width, study.depth_law), study.sequences) for width in study.widths]
    return [Size(study.width, depth_of(study.width, study.depth_law), sequences) for sequences in study.batches]
