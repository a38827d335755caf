"""Models with an encoder: checks of their workloads, defaults, and remarks on engines."""

from __future__ import annotations

from typing import Any

import msgspec

from planner.engine.job.defaults import Defaults
from planner.engine.job.engine import Engine
from planner.errors import Problems
from planner.workload.architecture import Architecture
from planner.workload.tasks import Lengths, Workload, trains

USUAL_SEQUENCE = 512
"""Tokens of a training sequence where none is given: the length T5 was pretrained with (arXiv:1910.10683, 3.1.2)."""
USUAL_ENGINE = "tensorrt-llm"
"""Engine of a service where none is given: its guide to models with an encoder names T5, BART, mBART and Whisper (TensorRT-LLM, 2026)."""
WITHOUT_ENCODERS = {
    "vllm": "vLLM runs Whisper alone of these since 0.11 (vllm-project/vllm#24907), BART and Whisper before",
    "gpt-fast": "gpt-fast has no such model",
    "lmdeploy": "LMDeploy has no such model (InternLM/lmdeploy#104)",
}
"""Engine -> remark on models with an encoder."""


def as_read(workload: Workload, architecture: Architecture, assumed: dict[str, Any], problems: Problems) -> Workload:
    """`workload` of a model that is an encoder only: it generates nothing, and a request is one pass over a text that counts as one token."""
    if workload.task == "generate":
        message = f"'generate' is not possible: {architecture.family} is an encoder and generates nothing; use train, finetune, prefill or serve."
        problems.add("task", message)
    if workload.task != "serve":
        return workload
    if workload.output_tokens not in {None, 1}:
        problems.add(
            "output_tokens",
            f"is not accepted: {architecture.family} is an encoder, whose answer is a vector or a score; leave it out.",
        )
    if workload.prefix_tokens:
        problems.add("prefix_tokens", f"is not accepted: {architecture.family} is an encoder and has no cache.")
    assumed["output_tokens"] = "1: an answer is a vector or a score of the whole text, and counts as one token"
    return msgspec.structs.replace(workload, output_tokens=1)


def check_encoder(workload: Workload, architecture: Architecture, problems: Problems) -> None:
    """Add to `problems` what a model with an encoder does not support; nothing for other models."""
    if architecture.source is None:
        return
    reason = f"{architecture.family} reads prompts with an encoder"
    if trains(workload.task):
        _check_training(workload, reason, problems)
    given = {
        "prefix_tokens": (workload.prefix_tokens, "every token of a prompt depends on all others, so no prefix can be kept"),
        "disaggregated": (workload.disaggregated, "its keys and values are not sent between replicas by any engine known here"),
    }
    for key, (value, why) in given.items():
        if value:
            problems.add(key, f"{value!r} is not accepted: {reason}; {why}.")
    if any(one.role == "draft" for one in workload.companions):
        problems.add("companions", f"a draft is not accepted: {reason}, and proposals are timed for decoders alone.")
    asked = workload.input_tokens
    mean = asked.mean if isinstance(asked, Lengths) else asked
    if architecture.source_tokens and mean is not None and (isinstance(asked, Lengths) or mean != architecture.source_tokens):
        problems.add(
            "input_tokens",
            f"{mean:g} is not accepted; it has to be {architecture.source_tokens:,}: {architecture.family} always reads 30 seconds of sound, or silence.",
        )


def _check_training(workload: Workload, reason: str, problems: Problems) -> None:
    """Add to `problems` what training of two stacks does not support: lengths that vary, and keeping or moving parts of a layer."""
    if isinstance(workload.input_tokens, Lengths):
        problems.add(
            "input_tokens", "is not accepted as a distribution; it has to be the tokens that the encoder reads of each sequence."
        )
    if workload.checkpointing == "selective-op":
        problems.add(
            "checkpointing",
            f"'selective-op' is not accepted: {reason}, whose operators are in none of the known lists; use 'full'.",
        )
    if workload.offload == "activations":
        problems.add("offload", f"'activations' is not accepted: {reason}, and their way to the host is timed for decoders alone.")


def source_numbers(workload: Workload, architecture: Architecture, defaults: Defaults, sequence: int) -> dict[str, float]:
    """Tokens that an encoder reads of each training sequence: by default as many as the decoder has; empty without an encoder."""
    if architecture.source is None:
        return {}
    given = workload.input_tokens
    if given is None or isinstance(given, Lengths):
        defaults.assumed["input_tokens"] = given = architecture.source_tokens or sequence
    defaults.assumed["tokens"] = "those of the decoder (sequence); those that the encoder reads (input_tokens) come beside them"
    return {"input_tokens": float(given)}


def encoder_assumed(architecture: Architecture, engine: Engine, defaults: Defaults) -> None:
    """Record in `defaults` what is assumed about a model with an encoder; nothing for other models."""
    if architecture.source is None:
        return
    if (remark := WITHOUT_ENCODERS.get(engine.name)) and architecture.family != "whisper":
        defaults.assumed["engine_models"] = remark
