"""Compute the golden values of every oracle anew, write them, and say what changed: `make oracles`.

Exits with 1 where a value differs from the committed one; the change is then in the working tree, to be looked at and committed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import decoder_cases
import description_cases
import memory_cases
import parameter_cases
import tower_cases
import two_stack_cases
import two_stack_training
from golden import ROOT, Golden, as_json


def training_memory() -> Mapping[str, Any]:
    """Bytes a training step holds, by case."""
    return {case.key: memory_cases.compute(case) for case in memory_cases.cases()}


def parameters() -> Mapping[str, Any]:
    """Parameters by component and shapes of matrices, by model."""
    return {parameter_cases.key(name): parameter_cases.compute(name) for name in parameter_cases.CONFIGS}


def descriptions() -> Mapping[str, Any]:
    """FLOPs and cache bytes of every family, and whole descriptions of some."""
    return {description_cases.key(name): description_cases.compute(name) for name in description_cases.ASKED}


def towers() -> Mapping[str, Any]:
    """Towers for pictures, by wrapper."""
    return {name: tower_cases.compute(name) for name in tower_cases.WRAPPERS}


def decoders() -> Mapping[str, Any]:
    """Every decoder of the library, built or not."""
    return decoder_cases.compute()


def two_stacks() -> Mapping[str, Any]:
    """Models of an encoder and a decoder, by `model_type`."""
    return {name: two_stack_cases.compute(name) for name in two_stack_cases.NAMES}


def two_stack_steps() -> Mapping[str, Any]:
    """Training steps of models of an encoder and a decoder, by case."""
    return {case.name: two_stack_training.compute(case) for case in two_stack_training.cases()}


ORACLES: tuple[tuple[Golden, Callable[[], Mapping[str, Any]]], ...] = (
    (parameter_cases.GOLDEN, parameters),
    (memory_cases.GOLDEN, training_memory),
    (description_cases.GOLDEN, descriptions),
    (decoder_cases.GOLDEN, decoders),
    (tower_cases.GOLDEN, towers),
    (two_stack_cases.GOLDEN, two_stacks),
    (two_stack_training.GOLDEN, two_stack_steps),
)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A line for each value that came, went or changed."""
    lines = [f"- {key}" for key in before if key not in after]
    for key, value in after.items():
        if key not in before:
            lines.append(f"+ {key}: {value}")
        elif before[key] != value:
            lines.append(f"! {key}: {before[key]} → {value}")
    return lines


def main() -> int:
    """Do all of it and return the exit status."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    changed = False
    for golden, compute in ORACLES:
        values = as_json(compute())
        path = golden.path.relative_to(ROOT)
        lines = differences(golden.values, values)
        stale = golden.made_from != golden.digests()
        if lines or stale:
            golden.write(values)
            changed = True
            print(*lines, sep="\n")
            print(f"{path}: {len(lines)} values differ; look at them and commit the file.")
        else:
            print(f"{path}: all {len(values)} values are as committed.")
    return int(changed)


if __name__ == "__main__":
    sys.exit(main())
