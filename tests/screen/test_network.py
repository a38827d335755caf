"""What why says of the network between the nodes of a row."""

from __future__ import annotations

import tomllib
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from tui_sample import CHAT, sample_plan

from planner.engine.answers.answer import LayoutAnswer
from planner.hardware.catalogue.gpus import load_gpus
from planner.paths import presets_folder
from planner.workload.presets import read_workload
from widgets.drawing.symbols import UNICODE
from widgets.screens.network import between_nodes, crossing
from widgets.screens.row.why import PageStyle, explain


@pytest.mark.parametrize(
    ("degrees", "task", "told"),
    [
        ({"tp": 16}, "serve", ["the all-reduces of every layer"]),
        ({"tp": 8, "pp": 2}, "serve", ["activations between stages"]),
        ({"tp": 8, "pp": 2, "dp": 3}, "train", ["activations between stages", "gradients"]),
        ({"tp": 8, "dp": 2}, "serve", ["only requests, since every replica is within one node"]),
        ({"tp": 4, "pp": 2, "dp": 2}, "serve", ["only requests, since every replica is within one node"]),
        ({"tp": 8, "dp": 2, "prefill_replicas": 1}, "serve", ["KV caches of prompts"]),
        ({"tp": 8, "cp": 2}, "train", ["keys and values of the context"]),
        ({"tp": 8, "dp": 2, "ep": 16}, "serve", ["tokens routed to experts"]),
    ],
)
def test_what_goes_over_the_network(degrees: dict[str, Any], task: str, told: list[str]) -> None:
    assert list(crossing(LayoutAnswer(gpus=16, nodes=2, gpus_per_node=8, **degrees), task)) == told


@pytest.mark.parametrize(
    ("gpu", "network"),
    [
        ("H100 SXM5 80GB", "infiniband 400 Gb/s a GPU (50 GB/s each way"),
        ("A100 SXM4 80GB", "infiniband 200 Gb/s a GPU (25 GB/s each way"),
        ("L40S", "ethernet 100 Gb/s a node (1.56 GB/s each way"),
    ],
)
def test_why_names_the_network_between_nodes(gpu: str, network: str) -> None:
    plan = sample_plan(read_workload(tomllib.loads(CHAT), "chat"), "measured")
    layout = LayoutAnswer(gpus=16, nodes=2, gpus_per_node=8, tp=8, pp=2)
    row = msgspec.structs.replace(plan.rows[0], answer=msgspec.structs.replace(plan.rows[0].answer, layout=layout))
    part = load_gpus(presets_folder() / "gpus").find(gpu)
    for width in (69, 106):
        lines = [line.plain for line in explain(row, plan, PageStyle(UNICODE, width), network=between_nodes(row, part, "serve"))]
        text = " ".join(" ".join(lines).split())
        assert f"layout tp8·pp2 · 2 nodes of 8 GPUs · between nodes {network}" in text.replace(
            " between nodes", " · between nodes", 1
        )
        assert "over it go activations between stages" in text
        assert all(cell_len(line) <= width for line in lines)
    measured = msgspec.structs.replace(row.answer, assumed={"between_nodes": "measured: all-reduce of 16 over 2 nodes"})
    assert "measured, see below" in between_nodes(msgspec.structs.replace(row, answer=measured), part, "serve")


def test_one_node_has_no_network_and_an_unknown_part_is_not_guessed() -> None:
    plan = sample_plan(read_workload(tomllib.loads(CHAT), "chat"), "measured")
    part = load_gpus(presets_folder() / "gpus").find("H100 SXM5 80GB")
    assert between_nodes(plan.rows[0], part, "serve") == ""
    layout = LayoutAnswer(gpus=16, nodes=2, gpus_per_node=8, tp=16)
    row = msgspec.structs.replace(plan.rows[0], answer=msgspec.structs.replace(plan.rows[0].answer, layout=layout))
    assert between_nodes(row, None, "serve") == ""
