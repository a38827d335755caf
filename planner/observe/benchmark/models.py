"""What a suite promises, and a model as the benchmark is told it: the products that its layers are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import protocol

if TYPE_CHECKING:
    from planner.workload.architecture import Architecture

LONGEST_S = protocol.PROMISED_S
"""Suite -> the longest it takes on a GPU."""
WITH_PRODUCTS = ("quick", "standard")
"""Suites that measure the products of a model besides."""


def product_options(architecture: Architecture) -> tuple[str, ...]:
    """The worker's arguments: ('--shapes', '2048x4096x4096', …)."""
    from planner.workload.layer_products import product_shapes

    return ("--shapes", *(f"{m}x{n}x{k}" for m, n, k in product_shapes(architecture)))
