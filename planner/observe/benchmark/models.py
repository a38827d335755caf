"""Options of the benchmark that depend on a suite or a model: time limits, and the matrix products of the model's layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import protocol

if TYPE_CHECKING:
    from planner.workload.architecture import Architecture

LONGEST_S = protocol.PROMISED_S
"""Suite -> the longest it takes on a GPU."""
WITH_PRODUCTS = ("quick", "standard")
"""Suites that also measure the products of a model."""


def product_options(architecture: Architecture) -> tuple[str, ...]:
    """The worker's arguments: ('--shapes', '2048x4096x4096', …)."""
    from planner.workload.layer_products import product_shapes

    return ("--shapes", *(f"{m}x{n}x{k}" for m, n, k in product_shapes(architecture)))
