"""A small sample of each kind of file or answer that others write."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from bench.protocol import Bye, Hello, Message, Plan, Point, Result, Start, encode
from planner import paths
from planner.hardware.measurements.exchange import export_document
from planner.hardware.measurements.measurement import Measurement, Prediction, Run
from planner.session import Session

DATA = Path(__file__).parent.parent / "data"
RUN = "20260101T000000Z-abcdef"
AT = "2026-01-01T00:00:00Z"
PAGE = b"""# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="a"} 50
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="a"} 1000
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="a"} 80000
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="a"} 300.5
DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-1",GPU_I_ID="3",GPU_I_PROFILE="1g.10gb"} 0.2
DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu="1",UUID="GPU-2",modelName="NVIDIA L4"} 4 1700000000000
DCGM_FI_DEV_ROW_REMAP_PENDING{gpu="1",UUID="GPU-2"} 1
gpu_planner_power_watts{gpu="2",uuid="GPU-3",name="L4"} 20
gpu_planner_clock_held_back{gpu="2",uuid="GPU-3",name="L4",reason="software thermal"} 1
"""
METRICS = (
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
    "gpu_planner_throttled_seconds_total",
)
SERIES = [
    {
        "metric": {"gpu": str(number), "modelName": "NVIDIA H100 80GB HBM3", "Hostname": host, "hpc_job": "7"},
        "value": [1.7e9, "0.5"],
    }
    for number, host in enumerate(("a", "a", "b"))
]
PRICES = b"""InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Price,SpotPrice,Region,AvailabilityZone
p5.48xlarge,192.0,2048.0,H100,8.0,"{'Gpus': [{'Name': 'H100', 'MemoryInfo': {'SizeInMiB': 81920}}]}",98.32,19.6,us-east-1,us-east-1a
g6.xlarge,4.0,16.0,L4,1.0,"{'Gpus': [{'Name': 'L4'}]}",0.8048,0.3,us-east-1,us-east-1b
g6.xlarge,4.0,16.0,L4,1.0,"{'Gpus': [{'Name': 'L4'}]}",0.9,,eu-west-1,eu-west-1a
"""
ACCESS_LOG = b'1.2.3.4 - - [10/Oct/2026:13:55:01 +0200] "POST /v1/completions HTTP/1.1" 200 512\n' * 3
SINFO = b"n01 gpu:l40s:8(S:0-1) idle\nn03 gpu:nvidia_a100-sxm4-80gb:4,gpu:nvidia_a100-sxm4-80gb_3g.40gb:2 allocated\n"
OWN = b'[[own]]\ngpu = "l40s"\ncount = 4\nlink = "pcie"\npower_limit_w = 300\npurchase_usd = 7000\n'
LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8", "nvidia.com/mig-1g.10gb.count": "14"}
CHOICES = b'[keys]\nwhy = "v"\nbenchmark = "ctrl+b,B"\n\n[app]\ntheme = "nord"\n'
CALLS: tuple[dict[str, Any], ...] = (
    {"name": "memory", "arguments": {"workload": "llama-3.1-8b-lora", "gpu": "L4", "changes": {"batch": 2}}},
    {"name": "offers", "arguments": {"gpu": "L4", "provider": "aws", "top": 2}},
    {"name": "estimate", "arguments": {"requests": [{"model": "gpt2", "gpu": "T4", "task": "generate", "input_tokens": 64}]}},
    {"name": "rightsize", "arguments": {"observed": [{"gpu": "L4", "seconds": 60, "readings": 60, "busy": 0.5}], "usd_per_h": 1.0}},
    {
        "name": "plan",
        "arguments": {"workload": "llama-3.1-8b-lora", "changes": {"targets.deadline_h": 24}, "gpus": ["L4"], "top": 1},
    },
)
POINT = Measurement(
    point="gemm/fp32/128x128x128", kind="gemm", device="L4", fingerprint="aaaa-1111", dtype="fp32", value=1e12, low=9e11, high=1.1e12,
    parameters={"m": 128, "n": 128, "k": 128}, status="ok", taken_at=AT, suite="quick", run=RUN, flop=4194304.0, samples=20,
)  # fmt: skip
RUNS = Run(id=RUN, suite="quick", device="L4", fingerprint="aaaa-1111", started_at=AT, state="finished", environment={"torch": "2"})
SEEN = Prediction(
    run=RUN, point=POINT.point, device="L4", kind="gemm", predicted=1e12, low=5e11, high=2e12, basis="spec", measured=1.1e12,
    measured_at=AT, version="1",
)  # fmt: skip
PREDICTED = {
    "id": "0a1b2c3d", "at": AT, "origin": "plan", "request": {"model": "gpt2", "gpu": "L4", "gpus": 1, "task": "generate"},
    "figures": {"tokens_per_s": [100.0, 80.0, 120.0]}, "kinds": {"tokens_per_s": "decode"}, "basis": "spec", "version": "1",
}  # fmt: skip


def samples(session: Session) -> dict[str, list[bytes]]:
    """Samples of each kind, all of which can be read."""
    presets = paths.presets_folder()
    stored = [{"layout": 1}, {"run": RUNS}, {"measurement": POINT}, {"prediction": SEEN}, {"removed": [[RUN, "other"]]}]
    logged = [
        {"layout": 1},
        {"predicted": PREDICTED},
        {"seen": {"id": "0a1b2c3d", "figure": "tokens_per_s", "value": 90.0, "at": AT}},
    ]
    answers = [{"status": "success", "data": METRICS}, {"status": "success", "data": {"result": SERIES}}]
    recording = (DATA / "windows/launch-bound.jsonl").read_bytes().splitlines(keepends=True)
    logs = [path.read_bytes() for path in sorted((DATA / "telemetry_logs").iterdir())]
    nodes = {"kind": "List", "items": [{"metadata": {"labels": LABELS}, "spec": {"unschedulable": False}}]}
    models = ("llama-3.1-8b", "gpt2", "deepseek-v3", "qwen3-30b-a3b", "gemma-3-27b")
    return {
        "exporter pages": [PAGE],
        "Prometheus answers": [_lines(answers)],
        "traffic": [ACCESS_LOG, *(path.read_bytes() for path in sorted((DATA / "traffic").iterdir()) if path.suffix != ".md")],
        "results": [path.read_bytes() for path in sorted((DATA / "results").iterdir()) if path.suffix != ".md"],
        "exported measurements": [export_document([POINT], [RUNS], version="1", exported_at=AT)],
        "stores": [_lines(stored)],
        "prediction logs": [_lines(logged)],
        "journals": [_journal()],
        "recordings": [b"".join(recording[:4]), PAGE, *logs],
        "GPUs": [_head(presets / "gpus")],
        "token prices": [_head(presets / "api_prices")],
        "offers": [_head(folder) for folder in sorted((presets / "offers").iterdir()) if folder.is_dir()],
        "providers": [_head(presets / "providers")],
        "price tables": [PRICES],
        "configs": [msgspec.json.encode(session.models.config(name)) for name in models if name in session.models.names()],
        "safetensors headers": [_safetensors()],
        "inventories": [SINFO, OWN, json.dumps(nodes).encode()],
        "key bindings": [CHOICES],
        "calls of agents": [json.dumps(one).encode() for one in CALLS],
    }


def write_gguf(path: Path) -> bool:
    """A small Qwen3; False where the library that writes it is not installed."""
    try:
        import gguf
        import numpy as np
    except ImportError:
        return False
    file = gguf.GGUFWriter(path, "qwen3")
    for name, value in (
        ("block_count", 1),
        ("embedding_length", 8),
        ("feed_forward_length", 16),
        ("head_count", 2),
        ("head_count_kv", 1),
    ):
        getattr(file, f"add_{name}")(value)
    file.add_file_type(gguf.LlamaFileType.ALL_F32)
    for name, shape in _SHAPES.items():
        file.add_tensor(name, np.zeros(shape, dtype=np.float32))
    for write in (file.write_header_to_file, file.write_kv_data_to_file, file.write_tensors_to_file, file.close):
        write()
    return True


_SHAPES: dict[str, tuple[int, ...]] = {
    "token_embd.weight": (32, 8), "output_norm.weight": (8,), "blk.0.attn_q.weight": (8, 8), "blk.0.attn_k.weight": (4, 8),
    "blk.0.attn_v.weight": (4, 8), "blk.0.attn_output.weight": (8, 8), "blk.0.ffn_gate.weight": (16, 8),
    "blk.0.ffn_up.weight": (16, 8), "blk.0.ffn_down.weight": (8, 16), "blk.0.attn_norm.weight": (8,), "blk.0.ffn_norm.weight": (8,),
}  # fmt: skip


def _safetensors() -> bytes:
    """The header of a small decoder without a family, which shapes say in full."""
    layer: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj": (8, 8),
        "self_attn.k_proj": (4, 8),
        "self_attn.v_proj": (4, 8),
        "self_attn.o_proj": (8, 8),
    }
    layer |= {"mlp.gate_proj": (16, 8), "mlp.up_proj": (16, 8), "mlp.down_proj": (8, 16), "input_layernorm": (8,)}
    shapes = {f"model.layers.{number}.{name}.weight": shape for number in range(2) for name, shape in layer.items()}
    shapes |= {"model.embed_tokens.weight": (32, 8), "model.norm.weight": (8,), "lm_head.weight": (32, 8)}
    return json.dumps({name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 64]} for name, shape in shapes.items()}).encode()


def _journal() -> bytes:
    point = Point(id=POINT.point, kind="gemm", label="", device="cuda:0", expected_s=1, cap_s=1)
    hello = Hello(
        schema=1, method=1, pid=1, device="cuda:0", device_name="NVIDIA L4", machine={"device": "x"}, software={}, environment={}
    )
    shared = {
        name: getattr(POINT, name)
        for name in ("point", "kind", "dtype", "parameters", "value", "low", "high", "status", "taken_at")
    }
    result = Result(**shared, unit="FLOP/s", samples_s=(1.0, 1.1))
    messages: tuple[Message, ...] = (
        hello,
        Plan(suite="quick", points=(point,)),
        Start(point=point.id),
        result,
        Bye(reason="finished"),
    )
    return b"".join(map(encode, messages))


def _lines(documents: Iterable[Any]) -> bytes:
    return b"".join(msgspec.json.encode(one) + b"\n" for one in documents)


def _head(folder: Path) -> bytes:
    """Beginning of a catalogue: its defaults and first entries."""
    first = min(folder.rglob("*.toml")).read_bytes()
    return b"\n\n".join(first.split(b"\n\n")[:5]) + b"\n"
