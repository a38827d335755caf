"""A GPU that was never built: PyTorch's operators run for their shapes alone, and a model of device and host says what they take.

The host launches each operator and goes on; the device works through them in order. Its L2 cache keeps the storages used last, and one
that was written is stored before another takes its place. `torch.cuda` and the clock of the process are replaced while it is in use.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench.machine.cuda import CudaTimer
from bench.machine.environment import Device
from bench.points import Bench
from bench.timing import CpuTimer

NAME = "cpu:0"
"""The torch device it pretends to be: other than 'cpu', and one whose tensors torch makes without CUDA."""
MOST_BYTES = 512e9
"""No GPU has more; a tensor beyond it does not fit."""
FILLED = ("uniform_", "normal_", "random_", "index_copy_")
PAGED = "torch_attn::_varlen_attn"
"""Attention over a cache in pages."""
FREE = (
    "view",
    "transpose",
    "t",
    "detach",
    "as_strided",
    "expand",
    "slice",
    "select",
    "permute",
    "alias",
    "_unsafe_view",
    "unsqueeze",
)


@dataclass
class Truth:
    """What is to be found."""

    flop_per_s: dict[str, float] = field(
        default_factory=lambda: {
            "bf16": 700e12,
            "fp16": 690e12,
            "fp32": 50e12,
            "tf32": 390e12,
            "fp8": 1150e12,
            "fp8-fast": 1350e12,
            "int8": 1300e12,
        }
    )
    bandwidth_bytes_per_s: float = 2.9e12
    cache_bandwidth_bytes_per_s: float = 7e12
    cache_bytes: float = 50 * 2.0**20
    knee: float = 2.5
    product_s: float = 3.4e-6
    """Latency of a product."""
    small_s: float = 1.4e-6
    """Latency of any other kernel."""
    host_s: float = 3.5e-6
    """Host time of an operator."""
    autocast_host_s: float = 10.4e-6
    """The same under autocast."""
    grouped: float = 1.0
    """Rate of products of experts over that of single ones."""
    link_bytes_per_s: float = 52e9
    """Copies to and from the host."""
    noise: float = 0.003
    held_down: float = 1.0
    """Clock over that of an undisturbed device."""
    neighbour: float = 0.0
    """Share of the device's time that a program of somebody else takes."""


class SimulatedGpu(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed
    """Adds up the time of operators on a device and on its host."""

    def __init__(self, truth: Truth) -> None:
        super().__init__()
        self.truth = truth
        self.host_s = self.device_s = 0.0
        self.recording: list[Callable[[], None]] | None = None
        self.busy = {"sm_active": 0.0, "tensor_active": 0.0, "dram_active": 0.0}
        """Seconds in which the device did anything, arithmetic, and moved memory."""
        self._cache: OrderedDict[int, tuple[float, bool]] = OrderedDict()
        self._kept = 0.0
        self._draw = random.Random(1)  # noqa: S311  # noise that is the same every time

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::").partition(".")[0]
        given = {key: value for key, value in (kwargs or {}).items() if key != "pin_memory"}
        out = args[0] if name in FILLED else func(*args, **given)
        if any(leaf.untyped_storage().nbytes() > MOST_BYTES for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        if name in FREE or ("::" in name and name != PAGED):
            return out
        inputs = args[1:] if name == "copy_" else args
        read = [leaf for leaf in tree_leaves((inputs, {**given, "out": None})) if isinstance(leaf, torch.Tensor)]
        written = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        if name == "copy_" and read and read[0].device != written[0].device:
            self._submit([], [], 0.0, 1.0, 1.0, _storage(written[0])[1] / self.truth.link_bytes_per_s)
        elif written and all(one.device == torch.device("cpu") for one in written):
            return out  # the host's own memory
        else:
            flop = flop_of(name, read, given, args)
            rate = self.truth.flop_per_s[_kind(name, read, given, args)] if flop else 1.0
            grouped = self.truth.grouped if name == "_grouped_mm" else 1.0
            self._submit([_storage(one) for one in read], [_storage(one) for one in written], flop, rate, grouped)
        return out

    def _submit(
        self,
        read: list[tuple[int, float]],
        written: list[tuple[int, float]],
        flop: float,
        rate: float,
        grouped: float,
        seconds: float = 0.0,
    ) -> None:
        def run() -> None:
            work_s = seconds or self._work_s(read, written, flop, rate * self.truth.held_down) / grouped
            took_s = work_s / (1 - self.truth.neighbour)
            self.busy["sm_active"] += took_s
            self.device_s += took_s

        if self.recording is not None:
            self.recording.append(run)
            return
        training = torch.is_autocast_enabled("cpu") or torch._C._current_graph_task_id() >= 0  # whether backward runs
        self.host_s += self.truth.autocast_host_s if training else self.truth.host_s
        self.device_s = max(self.device_s, self.host_s)
        run()

    def _work_s(self, read: list[tuple[int, float]], written: list[tuple[int, float]], flop: float, rate: float) -> float:
        truth = self.truth
        missed = hit = 0.0
        for key, size in read:
            hit, missed = (hit + size, missed) if key in self._cache else (hit, missed + size)
            missed += self._keep(key, size, dirty=self._cache.get(key, (0.0, False))[1])
        for key, size in written:
            missed += self._keep(key, size, dirty=True)
        moved_s = missed / truth.bandwidth_bytes_per_s + hit / truth.cache_bandwidth_bytes_per_s
        self.busy["dram_active"] += missed / truth.bandwidth_bytes_per_s
        self.busy["tensor_active"] += flop / rate
        if flop:
            work_s = truth.product_s + ((flop / rate) ** truth.knee + moved_s**truth.knee) ** (1 / truth.knee)
        else:
            work_s = truth.small_s + moved_s
        return float(work_s * self._draw.gauss(1, truth.noise))

    def _keep(self, key: int, size: float, *, dirty: bool) -> float:
        """Put a storage into the cache; returns the bytes that had to be stored before."""
        stored = 0.0
        self._kept -= self._cache.pop(key, (0.0, False))[0]
        if size > self.truth.cache_bytes:
            stored = size - self.truth.cache_bytes if dirty else 0.0
            size = self.truth.cache_bytes
        while self._kept + size > self.truth.cache_bytes:
            _, (old, was_dirty) = self._cache.popitem(last=False)
            self._kept -= old
            stored += old if was_dirty else 0.0
        self._cache[key] = (size, dirty)
        self._kept += size
        return stored


def _storage(tensor: torch.Tensor) -> tuple[int, float]:
    """What tells apart the memory of fake tensors, and its bytes: a part of a storage, or of an expanded one the storage."""
    storage, own_bytes = tensor.untyped_storage(), tensor.numel() * tensor.element_size()
    return hash((storage._cdata, tensor.storage_offset())), float(min(storage.nbytes(), own_bytes))


def flop_of(name: str, read: list[torch.Tensor], given: dict[str, Any], args: tuple[Any, ...]) -> float:
    """Arithmetic of an operator; 0 for one that only moves memory."""
    if name in {"mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "_int_mm", "_grouped_mm"}:
        left, right = read[-2:] if name.startswith(("add", "badd")) else read[:2]
        return float(2 * left.numel() * right.shape[-1])
    if name == "linear":
        return float(2 * read[0].numel() * read[1].shape[0])
    if name in {"_scaled_dot_product_flash_attention_for_cpu", "scaled_dot_product_attention"}:
        query, key = read[:2]
        causal = given.get("is_causal", args[4] if len(args) > 4 else False)
        return float(4 * query.numel() * key.shape[-2] / (2 if causal else 1))
    return 0.0


def _kind(name: str, read: list[torch.Tensor], given: dict[str, Any], args: tuple[Any, ...]) -> str:
    """Units that do the arithmetic of an operator."""
    if name == "_scaled_mm":
        return "fp8-fast" if given.get("use_fast_accum", args[7:] == (True,)) else "fp8"
    kind = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.int8: "int8"}.get(read[0].dtype, "fp32")
    return "tf32" if kind == "fp32" and torch.backends.cuda.matmul.fp32_precision == "tf32" else kind


class _Event:
    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu, self.at_s = gpu, 0.0

    def record(self) -> None:
        self._gpu.host_s += 1e-6
        self.at_s = max(self._gpu.device_s, self._gpu.host_s)

    def elapsed_time(self, end: _Event) -> float:
        return (end.at_s - self.at_s) * 1e3


class _Graph:
    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu
        self.work: list[Callable[[], None]] = []

    def replay(self) -> None:
        self._gpu.host_s += self._gpu.truth.host_s
        self._gpu.device_s = max(self._gpu.device_s, self._gpu.host_s)
        for run in self.work:
            run()


@contextmanager
def simulated(truth: Truth, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """The bench of a machine with that GPU."""
    gpu = SimulatedGpu(truth)
    graphs: list[_Graph] = []

    @contextmanager
    def record(graph: _Graph) -> Iterator[None]:
        gpu.recording = graph.work
        yield
        gpu.recording = None

    @contextmanager
    def on_stream(_: Any) -> Iterator[None]:
        yield

    def synchronize(_: Any = None) -> None:
        gpu.host_s = max(gpu.host_s, gpu.device_s)

    def new_graph() -> _Graph:
        graphs.append(_Graph(gpu))
        return graphs[-1]

    stream = SimpleNamespace(wait_stream=lambda _: None)
    facts = SimpleNamespace(L2_cache_size=int(truth.cache_bytes), multi_processor_count=132, uuid=None)
    replaced = {
        "get_device_properties": lambda _: facts,
        "Event": lambda **_: _Event(gpu),
        "synchronize": synchronize,
        "Stream": lambda *_: stream,
        "current_stream": lambda *_: stream,
        "stream": on_stream,
        "CUDAGraph": new_graph,
        "graph": record,
        "max_memory_allocated": lambda _: 2**30,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(torch.cuda, name, value)
    clock = SimpleNamespace(perf_counter=lambda: gpu.host_s, sleep=lambda _: None)
    monkeypatch.setattr("bench.timing.time", clock)
    monkeypatch.setattr("bench.timing.LONG_ENOUGH_S", 0.005)  # samples are few enough for a test
    for place, few in {
        "bench.machine.cuda.QUEUED": 3,
        "bench.machine.cuda.WARM_S": 1e-3,
        "bench.timing.FEWEST": 3,
        "bench.timing.MOST": 4,
    }.items():
        monkeypatch.setattr(place, few)
    monkeypatch.setattr(CpuTimer, "warm_s", 1e-3)
    monkeypatch.setattr("bench.machine.cuda.time", clock)
    monkeypatch.setattr(torch.optim.AdamW, "step", _adamw)
    device = Device(NAME, "NVIDIA H100 80GB HBM3", 80e9, truth.cache_bytes, 1, capability=(9, 0))
    with FakeTensorMode(allow_non_fake_inputs=True), gpu:
        timer = CudaTimer(NAME)
        timer.gpu = gpu  # type: ignore[attr-defined]  # for what else is simulated
        yield Bench(device, timer, lambda: False, lambda _fraction, _note: None)


def _adamw(optimizer: Any) -> None:
    """One kernel that reads and writes every state, as the fused step of a GPU."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad.add(parameter.grad)
