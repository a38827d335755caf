"""Training steps of two networks that are not transformers: a multilayer perceptron and a small convolutional network."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the name every torch program uses
from torch import nn

from bench.kinds.training import autocast, finished, flop_result
from bench.points import Bench
from bench.products.matmul import refuse_unsupported
from bench.protocol import Point, Result
from bench.timing import CpuTimer

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
    return _measure(bench, point, dtype, perceptron(width, depth), inputs, perceptron_flop(width, depth, batch), parameters)


def measure_convolutional(bench: Bench, point: Point, dtype: str, channels: int, image: int, batch: int) -> Result:
    """FLOP/s of a step of the convolutional network. Raises `UnsupportedError`, `TooSlowError`."""
    inputs = torch.randn(batch, 3, image, image, device=bench.device.torch_name).to(memory_format=torch.channels_last)
    parameters = {"network": "cnn", "channels": channels, "image": image, "batch": batch}
    network = convolutional(channels).to(memory_format=torch.channels_last)
    return _measure(bench, point, dtype, network, inputs, convolutional_flop(channels, image, batch), parameters)


def _measure(bench: Bench, point: Point, dtype: str, network: Any, inputs: Any, flop: float, parameters: dict[str, Any]) -> Result:
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
    parameters |= {"optimizer": "sgd-momentum", "samples_per_s": inputs.shape[0] / timed.median_s}
    return flop_result(bench, point, timed, flop, dtype, parameters)
