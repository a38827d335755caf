"""Requests of imported results: settings in the file, those given with it, and names of missing ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from planner.errors import Problem, UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.observe.results.result import Result
from planner.schema import faults
from planner.workload.published.names import model_key
from planner.workload.tasks import Request

EXAMPLES = {
    "model": "llama-3.1-8b",
    "gpu": "H100",
    "gpus": "1",
    "engine": "vllm",
    "dtype": "bf16",
    "tp": "4",
    "input_tokens": "1024",
    "output_tokens": "128",
    "concurrency": "32",
}
"""An accepted value for each setting that may be asked for."""


def request_of(result: Result, given: Mapping[str, Any], where: str, find: Finders) -> Request:
    """Request for the prediction of a result; `given` takes precedence over the file.

    Raises `UserError` with one problem for each setting that is missing from both, or wrong.
    """
    fields = _named(result.settings | dict(given), find)
    problems = [Problem(where, name, _ask(name)) for name in missing(fields)]
    if not problems:
        wrong = faults(Request, fields, where)
        problems = [one._replace(where="--set") if one.key.partition(".")[0] in given else one for one in wrong]
    if problems:
        raise UserError(problems)
    return msgspec.convert(fields, Request)


class Finders(msgspec.Struct, frozen=True):
    """Look-ups of names that tools write."""

    gpu: Callable[[str], Gpu | None]
    """The GPU with a name or a driver's name, or None."""
    model_names: frozenset[str]
    """Names of the catalogue."""


def missing(fields: Mapping[str, Any]) -> Iterator[str]:
    """Missing settings that a prediction needs and that have no default."""
    for name in ("model", "gpu", "gpus", "engine"):
        if not fields.get(name):
            yield name
    if not fields.get("dtype") and not fields.get("weight_dtype"):
        yield "dtype"
    if (fields.get("gpus") or 1) > 1 and not any(fields.get(name) for name in ("tp", "pp", "dp")):
        yield "tp"
    wanted = ["input_tokens", "output_tokens"] if fields.get("task") != "train" else []
    if fields.get("task") == "serve" and not any(fields.get(name) for name in ("request_rate_per_s", "concurrency")):
        wanted.append("concurrency")
    yield from (name for name in wanted if not fields.get(name))


def _named(fields: dict[str, Any], find: Finders) -> dict[str, Any]:
    """`fields` with the planner's names for the GPU and the model, where it has one."""
    model, gpu = fields.get("model"), fields.get("gpu")
    if isinstance(model, str) and model and model_key(model) in find.model_names:
        fields["model"] = model_key(model)
    if isinstance(gpu, str) and gpu and (part := find.gpu(gpu)) is not None:
        fields["gpu"] = part.name
    if "concurrency" in fields and "request_rate_per_s" in fields:
        del fields["concurrency"]
    return fields


def _ask(name: str) -> str:
    what = f"{name} or weight_dtype" if name == "dtype" else f"{name}, pp or dp" if name == "tp" else name
    return f"is not in the file; give {what} as --set {name}=VALUE, such as {name}={EXAMPLES[name]}."
