"""Machines as Slurm, Kubernetes and TOML list them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.errors import UserError
from planner.session import Session
from planner.workload.hardware import inventory
from planner.workload.hardware.owned import Own

SINFO = """\
n01 gpu:l40s:8(S:0-1) idle
n02 gpu:l40s:8(S:0-1) mixed
n02 gpu:l40s:8(S:0-1) mixed
n03 gpu:nvidia_a100-sxm4-80gb:4,gpu:nvidia_a100-sxm4-80gb_3g.40gb:2 allocated
n04 gpu:l40s:8 drained
n05 (null) idle
n06 shard:4,gpu:tesla_t4:1 idle*
"""


def _node(product: str, count: int, **labels: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(count), **labels}}}


@pytest.fixture(scope="module")
def session() -> Session:
    return Session.open()


def _read(session: Session, tmp_path: Path, name: str, text: str) -> list[Own]:
    (tmp_path / name).write_text(text)
    return session.machines(tmp_path / name)


def test_slurm_counts_each_node_once_and_leaves_out_what_takes_no_jobs(session: Session, tmp_path: Path) -> None:
    assert _read(session, tmp_path, "sinfo.txt", SINFO) == [
        Own(gpu="L40S", count=8, nodes=2),
        Own(gpu="A100 80GB SXM", count=4),
        Own(gpu="A100 80GB SXM", count=2, mig="3g.40gb"),
        Own(gpu="T4", count=1),
    ]


def test_slurm_lists_of_nodes_are_taken_apart(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """4 + 1 + 2 · 3 nodes; n02 is in another partition too; names end at the most that are read."""
    listed = """\
NODELIST|GRES|STATE
n[01-03,05]|gpu:l40s:8(S:0-1)|idle
n02,gpu7|gpu:l40s:8(S:0-1)|mixed
rack[1-2]n[08-10]-ib gpu:l40s:8 allocated
n[11-12] gpu:l40s:8 drained
"""
    assert _read(session, tmp_path, "sinfo.txt", listed) == [Own(gpu="L40S", count=8, nodes=11)]
    monkeypatch.setattr(inventory, "MOST_NAMES", 10_000)
    endless = "a[0-999999] gpu:l40s:8 idle\n" * 3 + "b[0-9 gpu:l40s:4 idle\n"
    (found,) = _read(session, tmp_path, "sinfo.txt", endless)
    assert found.nodes == 10_000


def test_kubernetes_reads_products_slices_of_both_strategies_and_cordoned_nodes(session: Session, tmp_path: Path) -> None:
    cordoned = {**_node("NVIDIA-L4", 1), "spec": {"unschedulable": True}}
    mixed = _node("NVIDIA-H100-80GB-HBM3", 8, **{"nvidia.com/mig-1g.10gb.count": "14", "nvidia.com/mig-3g.40gb.count": "4"})
    nodes = [
        _node("NVIDIA-L40S", 8),
        _node("NVIDIA-L40S", 8),
        _node("NVIDIA-A100-SXM4-80GB-MIG-2g.20gb", 3),
        mixed,
        _node("Tesla-T4-SHARED", 4),
        cordoned,
        {"metadata": {"labels": {"kubernetes.io/os": "linux"}}},
    ]
    assert _read(session, tmp_path, "nodes.json", json.dumps({"kind": "List", "items": nodes})) == [
        Own(gpu="L40S", count=8, nodes=2),
        Own(gpu="A100 80GB SXM", count=3, mig="2g.20gb"),
        Own(gpu="H100 SXM5 80GB", count=14, mig="1g.10gb"),
        Own(gpu="H100 SXM5 80GB", count=4, mig="3g.40gb"),
        Own(gpu="T4", count=4),
    ]


def test_toml_keeps_what_it_says(session: Session, tmp_path: Path) -> None:
    text = '[[own]]\ngpu = "l40s"\ncount = 4\nlink = "pcie"\npower_limit_w = 300\npurchase_usd = 7000\n'
    (own,) = _read(session, tmp_path, "own.toml", text)
    assert own == Own(gpu="L40S", count=4, link="pcie", power_limit_w=300, purchase_usd=7000)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.txt", "n01 gpu:a100:8 idle\n", "'a100' names no GPU or several"),
        ("f.txt", "n01 gpu:a100:8 idle\n", "'A100 80GB SXM' or 'A100 80GB PCIe' or 'A100 40GB SXM'"),
        ("b.json", '{"items": 3}', "3 is not a list of nodes"),
        ("c.txt", "PARTITION AVAIL\n", "sinfo -N"),
        ("d.toml", "[[own]]\ngpu = 'L4'\ncuont = 2\n", "Did you mean 'count'"),
        ("e.toml", "[[own]]\ngpu = 'L40X'\n", "'L40S'"),
    ],
)
def test_what_cannot_be_read_is_named(session: Session, tmp_path: Path, name: str, text: str, told: str) -> None:
    with pytest.raises(UserError) as wrong:
        _read(session, tmp_path, name, text)
    assert any(told in str(problem) for problem in wrong.value.problems), wrong.value
    assert all(name in str(problem) for problem in wrong.value.problems)


def test_gpus_of_ones_own_join_the_catalogue_and_what_they_lack_is_told(tmp_path: Path) -> None:
    (tmp_path / "gpus").mkdir()
    mine = tmp_path / "gpus" / "mine.toml"
    figures = 'vendor = "NVIDIA"\narchitecture = "Rubin"\nmemory_bytes = 288e9\nmemory_bandwidth_bytes_per_s = 13e12\n'
    rest = "compute_flop_per_s = { bf16 = 4e15 }\nsource = 'announcement'\nretrieved = 2026-11-01\n"
    mine.write_text(f'[[gpu]]\nname = "R100"\n{figures}{rest}')
    own = Session.open(config=tmp_path)
    (row,) = own.fit({"model": "qwen3-8b", "weight_dtype": "bf16"}, "R100").rows
    (known,) = own.fit({"model": "qwen3-8b", "weight_dtype": "bf16"}, "H200 SXM").rows
    assert row.answer.output_tokens_per_s
    assert known.answer.output_tokens_per_s
    assert row.answer.output_tokens_per_s.value > 2 * known.answer.output_tokens_per_s.value
    spread = row.answer.output_tokens_per_s
    assert spread.high / spread.low >= known.answer.output_tokens_per_s.high / known.answer.output_tokens_per_s.low
    mine.write_text('[[gpu]]\nname = "R100"\nvendor = "NVIDIA"\n')
    with pytest.raises(UserError) as wrong:
        Session.open(config=tmp_path).gpus.find("R100")
    assert {"memory_bytes", "memory_bandwidth_bytes_per_s", "compute_flop_per_s"} <= {
        problem.key.rpartition(".")[2] for problem in wrong.value.problems
    }
    mine.write_text(f'[[gpu]]\nname = "R100"\naliases = ["H200 SXM"]\n{figures}{rest}')
    with pytest.raises(UserError, match="already names"):
        Session.open(config=tmp_path).gpus.find("R100")
