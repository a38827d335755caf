"""Training steps of a perceptron and a convolutional network, compiled steps, and steps of low-rank adapters."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the name every torch program uses
from torch import nn

from bench.kinds.training import autocast, finished, flop_result, step_parameters, training_step
from bench.kinds.transformer import Qwen3Shape
from bench.points import Bench, UnsupportedError
from bench.products.matmul import refuse_unsupported
from bench.protocol import Point, Result, breaks_device
from bench.timing import CpuTimer, Stopped

CLASSES = 1000
KERNEL = 3
STAGES = (1, 2, 4, 8)
"""Channels of the convolutional network in units of its first; each stage after the first halves the image."""


def perceptron(width: int, depth: int) -> Any:
    """`depth` square layers with ReLU, then the classes."""
    layers: list[Any] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, CLASSES))


def perceptron_flop(width: int, depth: int, batch: int) -> float:
    """FLOP of a step: three passes over the matrices, less the gradient of the input."""
    forward = 2.0 * batch * (depth * width * width + width * CLASSES)
    return 3 * forward - 2.0 * batch * width * width


def convolutional(channels: int) -> Any:
    """Two 3×3 convolutions with batch norm and ReLU for each stage, then the mean and the classes."""
    layers: list[Any] = []
    inputs = 3
    for number, factor in enumerate(STAGES):
        for stride in (2 if number else 1, 1):
            outputs = channels * factor
            layers += [nn.Conv2d(inputs, outputs, KERNEL, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))


def convolutional_flop(channels: int, image: int, batch: int) -> float:
    """FLOP of a step: three passes over the convolutions, less the gradient of the image."""
    forward, first, inputs, side = 0.0, 0.0, 3, image
    for number, factor in enumerate(STAGES):
        for stride in (2 if number else 1, 1):
            side = (side + 2 - KERNEL) // stride + 1
            flop = 2.0 * batch * inputs * channels * factor * KERNEL * KERNEL * side * side
            first = first or flop
            forward, inputs = forward + flop, channels * factor
    return 3 * (forward + 2.0 * batch * inputs * CLASSES) - first


def measure_perceptron(bench: Bench, point: Point, dtype: str, width: int, depth: int, batch: int) -> Result:
    """FLOP/s of a step of the perceptron. Raises `UnsupportedError`, `TooSlowError`."""
    inputs = torch.randn(batch, width, device=bench.device.torch_name)
    parameters = {"network": "mlp", "width": width, "depth": depth, "batch": batch}
    return _measure_network(bench, point, dtype, perceptron(width, depth), inputs, perceptron_flop(width, depth, batch), parameters)


def measure_convolutional(bench: Bench, point: Point, dtype: str, channels: int, image: int, batch: int) -> Result:
    """FLOP/s of a step of the convolutional network. Raises `UnsupportedError`, `TooSlowError`."""
    inputs = torch.randn(batch, 3, image, image, device=bench.device.torch_name).to(memory_format=torch.channels_last)
    parameters = {"network": "cnn", "channels": channels, "image": image, "batch": batch}
    network = convolutional(channels).to(memory_format=torch.channels_last)
    return _measure_network(bench, point, dtype, network, inputs, convolutional_flop(channels, image, batch), parameters)


def _measure_network(
    bench: Bench, point: Point, dtype: str, network: Any, inputs: Any, flop: float, parameters: dict[str, Any]
) -> Result:
    device = bench.device
    refuse_unsupported(device, dtype)
    bench.refuse_if_slow(flop, dtype, point.cap_s, efficiency=0.1)
    network = network.to(device.torch_name)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
    targets = torch.randint(CLASSES, (inputs.shape[0],), device=device.torch_name)

    def step() -> None:
        with autocast(device.torch_name, dtype):
            scores = network(inputs)
        F.cross_entropy(scores.float(), targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    timed = bench.time(finished(step, device.torch_name), point.cap_s, whole=False, timer=CpuTimer())
    parameters |= {"optimizer": "sgd-momentum", "samples_per_s": inputs.shape[0] / timed.call_s}
    return flop_result(bench, point, timed, flop, dtype, parameters)


STEADY = 0.05
"""Largest relative difference between two consecutive steps without compilation."""
MOST_FIRST_STEPS = 8
RANK = 16
ADAPTED = ("query", "key", "value", "out", "gate", "up", "down")


def measure_compiled(bench: Bench, point: Point, shape: Qwen3Shape, dtype: str, batch: int, sequence: int) -> Result:
    """Model FLOP/s of compiled steps, compile time apart (`compile_s`). Raises `UnsupportedError`, `TooSlowError`."""
    device = bench.device
    refuse_unsupported(device, dtype)
    flop = shape.step_flop(batch, sequence)
    bench.refuse_if_slow(flop, f"train/{dtype}", point.cap_s)
    step = training_step(shape, device.torch_name, batch, sequence, dtype, prepare=torch.compile)
    whole = finished(step, device.torch_name)
    bench.progress(0.0, "compiling")
    compile_s = _compiled(bench, whole)
    timed = bench.time(whole, point.cap_s, whole=False, timer=CpuTimer())
    parameters = {**step_parameters(shape, dtype, batch, sequence), "compiled": True, "compile_s": round(compile_s, 3)}
    parameters["tokens_per_s"] = batch * sequence / timed.call_s
    return flop_result(bench, point, timed, flop, dtype, parameters)


def _compiled(bench: Bench, step: Any) -> float:
    """Run steps until two agree; returns the seconds they took beyond the time of as many steady steps."""
    taken: list[float] = []
    while len(taken) < MOST_FIRST_STEPS:
        if bench.stopping():
            raise Stopped
        begin = time.perf_counter()
        try:
            step()
        except RuntimeError as refused:
            lines = [line for line in str(refused).splitlines() if line.strip()]
            if "out of memory" in str(refused).lower() or breaks_device(str(refused)):
                raise
            raise UnsupportedError(f"torch.compile fails here: {lines[0] if lines else type(refused).__name__}") from refused
        taken.append(time.perf_counter() - begin)
        if len(taken) > 1 and abs(taken[-1] - taken[-2]) <= STEADY * taken[-1]:
            break
    return max(0.0, sum(taken) - len(taken) * min(taken))


class LoraLinear(nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """A frozen linear layer with a parallel, trained low-rank path."""

    def __init__(self, frozen: Any, rank: int) -> None:
        super().__init__()
        self.frozen = frozen
        self.down = nn.Linear(frozen.in_features, rank, bias=False, device=frozen.weight.device)
        self.up = nn.Linear(rank, frozen.out_features, bias=False, device=frozen.weight.device)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Any) -> Any:
        """Sum of both paths."""
        return self.frozen(x) + self.up(self.down(x))


def with_adapters(model: Any) -> Any:
    """`model` with every weight frozen, matrices in bf16, and adapters of `RANK` on those of the layers."""
    model.requires_grad_(requires_grad=False)
    for layer in model.layers:
        for name in ADAPTED:
            linear = getattr(layer, name)
            linear.to(torch.bfloat16)
            setattr(layer, name, LoraLinear(linear, RANK))
    return model


def adapter_parameters(shape: Qwen3Shape) -> int:
    """Number of trained parameters of `with_adapters`."""
    inner, key_inner = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    ends = 2 * (shape.width + inner) + 2 * (shape.width + key_inner) + 3 * (shape.width + shape.ffn)
    return shape.depth * RANK * ends


def adapter_step_flop(shape: Qwen3Shape, batch: int, sequence: int) -> float:
    """FLOP of one step: frozen matrices twice (forward, and the gradient of their input), attention and adapters three times."""
    attention = 4.0 * batch * sequence * shape.heads * shape.head_dim * sequence * shape.depth
    matrices = shape.forward_flop(batch, sequence) - attention
    return 2 * matrices + 3 * attention + 6.0 * batch * sequence * adapter_parameters(shape)


def measure_lora(bench: Bench, point: Point, shape: Qwen3Shape, batch: int, sequence: int) -> Result:
    """FLOP/s of a LoRA step under bf16 autocast, adapters on all linear layers. Raises `UnsupportedError`, `TooSlowError`."""
    device, dtype = bench.device, "bf16"
    refuse_unsupported(device, dtype)
    flop = adapter_step_flop(shape, batch, sequence)
    bench.refuse_if_slow(flop, f"train/{dtype}", point.cap_s)
    step = training_step(shape, device.torch_name, batch, sequence, dtype, prepare=with_adapters)
    timed = bench.time(finished(step, device.torch_name), point.cap_s, whole=False, timer=CpuTimer())
    parameters = {**step_parameters(shape, dtype, batch, sequence), "lora_rank": RANK, "trained": adapter_parameters(shape)}
    parameters["tokens_per_s"] = batch * sequence / timed.call_s
    return flop_result(bench, point, timed, flop, dtype, parameters)
