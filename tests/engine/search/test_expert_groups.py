"""Plans of services with shared experts, over every mixture of experts of the catalogue: layouts that engines can be started in."""

from __future__ import annotations

import pytest
from engine_sample import session

from planner.workload.huggingface.config import read_architecture
from planner.workload.models import ModelShelf

SHELF: ModelShelf = session().models
GPUS = {"H100 SXM5 80GB": 8, "B200 SXM": 8, "GB200": 4}
RATE = 19.0
"""Requests each second: no multiple of a group that shares experts."""


def mixtures() -> list[str]:
    return [name for name in SHELF.names() if read_architecture(SHELF.config(name)).experts]


EVERY = mixtures()
FEW = ["nemotron-3-super-120b-a12b", "nemotron-3-ultra-550b-a55b", *EVERY[::8]]


@pytest.mark.sweep
@pytest.mark.parametrize("model", [*FEW, *(pytest.param(name, marks=pytest.mark.thorough) for name in EVERY if name not in FEW)])
def test_replicas_that_share_experts_come_in_whole_groups(model: str) -> None:
    """A group has one rank for each part of the experts, which every layer has as many of, and takes a node or several whole ones."""
    asked = {
        "model": model, "task": "serve", "input_tokens": 1500, "output_tokens": 400, "request_rate_per_s": RATE,
        "gpus_considered": [*GPUS], "max_gpus": 4096,
    }  # fmt: skip
    found = session().plan(session().workload(asked, "test"), basis="spec", levers=False)
    a = read_architecture(SHELF.config(model))
    shared = 0
    for row in found.rows:
        layout = row.answer.layout
        if layout is None or layout.ep == 1:
            continue
        shared += 1
        assert layout.dp % layout.ep == 0
        assert layout.gpus == layout.tp * layout.pp * layout.dp
        assert a.experts % layout.ep == 0
        inside = min(layout.gpus_per_node, layout.gpus)
        assert layout.ep % inside == 0 or inside % layout.ep == 0
    assert len(found.rows) > shared, "replicas that share nothing are planned beside them"
