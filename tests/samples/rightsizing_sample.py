"""Recorded windows, and a GPU that was observed: what tests of right-sizing start from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from telemetry_sample import WINDOWS

from planner.engine.advice.advice import Action, RightSizing
from planner.engine.advice.observation import Observed
from planner.observe.telemetry.recording import read_recording
from planner.observe.telemetry.window import observe
from planner.session import Session
from planner.units import GIB

H100 = "H100 SXM5 80GB"


def window(session: Session, name: str) -> Observed:
    (seen,) = observe(read_recording(WINDOWS / f"{name}.jsonl").snapshots, session.gpus)
    return seen


def sized(session: Session, seen: Observed, **options: Any) -> RightSizing:
    (one,) = session.rightsize([seen], **options).gpus
    return one


def cheapest(session: Session, gpu: str, field: str = "on_demand_usd_per_h") -> float:
    """By hand: the least that anybody asks for one of them."""
    prices = [getattr(offer, field) for offer in session.offers if offer.gpu == gpu and offer.gpus == 1]
    return float(min(price for price in prices if price is not None))


def action(one: RightSizing | Sequence[Action], kind: str) -> Action:
    actions = one.actions if isinstance(one, RightSizing) else one
    return next(found for found in actions if found.kind == kind)


def dollars(found: Action) -> float:
    assert found.saves is not None
    return found.saves.usd_per_month


def h100(**changes: Any) -> Observed:
    """An H100 at work, neither full nor empty."""
    usual: dict[str, Any] = {
        "gpu": H100, "seconds": 60.0, "readings": 60, "busy": 1.0, "sm_active": 0.75, "sm_occupancy": 0.2, "tensor_active": 0.3,
        "dram_bandwidth": 0.3, "fp64_active": 0.0, "fp32_active": 0.05, "fp16_active": 0.0, "kernel_resident": 0.99,
        "memory_used_bytes": 45 * GIB, "memory_total_bytes": 79.6 * GIB, "power_w": 500.0, "power_limit_w": 700.0,
        "sm_clock_hz": 1980e6, "max_sm_clock_hz": 1980e6,
    }  # fmt: skip
    return Observed(**usual | changes)
