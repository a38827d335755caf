"""A measured matrix product, and any other measurement made of it."""

from __future__ import annotations

import msgspec

from planner.hardware.measurements.measurement import Measurement


def measurement(point: str = "gemm/bf16/1024x1024x1024", **changes: object) -> Measurement:
    base = Measurement(
        point=point,
        kind="gemm",
        device="Test CPU",
        fingerprint="aaaa-1111",
        dtype="bf16",
        parameters={"m": 1024, "n": 1024, "k": 1024},
        value=1e12,
        low=0.9e12,
        high=1.1e12,
        status="ok",
        taken_at="2026-01-01T00:00:00Z",
        suite="quick",
        run="r1",
        flop=2.0 * 1024**3,
        samples=20,
    )
    around = {"low": None, "high": None} if "value" in changes else {}
    return msgspec.structs.replace(base, **(around | changes))
