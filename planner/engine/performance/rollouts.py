"""Seconds of generating the answers that a model is trained on, and of scoring them, for one optimizer step.

Symbols: A answers of one copy in a rollout · C of them at once · o mean tokens of an answer · L(n) tokens of the longest of n answers.

A decoding step with n answers takes about step(1) + (n - 1)·slope. The A answers have A·o tokens. Slots are filled again until no answer is
left, then the longest of the last C runs on alone: A·o/C + L(C) - o steps.
"""

from __future__ import annotations

import msgspec
import numpy as np

from planner.engine.columns import Floats, Table
from planner.engine.columns.limits import chunk_tokens
from planner.engine.memory.companions import answers_of_copy, generating_table
from planner.engine.memory.stages import micro_batches
from planner.engine.performance.operators.communication import peer_bytes_per_s
from planner.engine.performance.operators.forward_pass import Pass, forward
from planner.engine.performance.sequences import longest_of

WEIGHT_BYTES = 2.0
"""Bytes per parameter when weights are sent to the generating engine."""


class RolloutColumns(msgspec.Struct, frozen=True):
    """Seconds for one optimizer step, each broadcasting to [rows]."""

    prompts: Floats
    decoding: Floats
    weights: Floats
    """Time of sending new weights to the engine."""
    scoring: Floats
    """Forward passes of the model, its reference, reward model and critic over the answers."""
    critic: Floats
    """Updates of critics."""

    @property
    def generating(self) -> Floats:
        """Total time of the engine."""
        return self.prompts + self.decoding

    def beside(self, t: Table, update_s: Floats) -> dict[str, Floats]:
        """Seconds by class in addition to the update's; GPUs that only generate work during the previous update, and count if they take longer."""
        scoring = self.scoring + self.critic
        apart = t.job.rollout_gpus > 0
        rollout = np.where(apart, np.maximum(0.0, self.generating - update_s - scoring), self.generating)
        return {"rollout": rollout, "new weights": self.weights, "scoring": scoring}


def rollout_of(t: Table, one: Pass, micro_s: Floats) -> RolloutColumns | None:
    """Rollout of every candidate; None if no row has one. `one`, `micro_s`: forward pass and total time of a micro batch's update."""
    if t.rollout_job is None:
        return None
    j, s, g = t.job, t.layout, generating_table(t)
    answers, at_once = answers_of_copy(t, g.layout.dp), g.layout.sequences
    count = micro_batches(t)
    forward_s = np.maximum(one.device * t.chip.train_factor, one.host)
    rounds = j.rolls / np.maximum(j.rollout_steps, 1.0)
    return RolloutColumns(
        prompts=_prompts_s(g, np.maximum(1.0, answers / np.maximum(j.rollout_answers, 1.0))) * rounds,
        decoding=_decoding_s(t, g, answers, at_once) * rounds,
        weights=_handed_over_s(t, g) * rounds,
        scoring=j.scored * forward_s * (count + s.pp - 1),
        critic=j.critic_steps * micro_s * count,
    )


def _prompts_s(g: Table, prompts: Floats) -> Floats:
    """Seconds of reading `prompts` in passes of as many tokens as the engine takes at once."""
    length = np.maximum(g.job.input_tokens, 1.0)
    rows = np.minimum(np.maximum(chunk_tokens(g), length), prompts * length)
    one = forward(g, rows, length / 2, length, head_rows=rows / length)
    return (one.total + g.engine.host_step_s) * prompts * length / rows


def _decoding_s(t: Table, g: Table, answers: Floats, at_once: Floats) -> Floats:
    """Seconds of decoding all answers of one copy."""
    mean = g.job.output_tokens
    context = g.job.input_tokens + mean / 2

    def step(running: Floats) -> Floats:
        passed = forward(g, running, context, np.ones(1), head_rows=running)
        return passed.total + g.engine.host_step_s + g.engine.host_sequence_s * running

    alone = step(np.ones(1))
    slope = (step(at_once) - alone) / np.maximum(at_once - 1, 1.0) * (at_once > 1)
    room = np.maximum(t.job.sequence - g.job.input_tokens, 1.0)
    longest = np.maximum(mean, longest_of(at_once, t.job.answer_log_mean, t.job.answer_log_spread, room)[0])
    steps = answers * mean / at_once + longest - mean
    return (alone - slope) * steps + slope * answers * mean


def _handed_over_s(t: Table, g: Table) -> Floats:
    """Seconds in which every generating GPU receives its share of the new weights; 0 if it has trained the same share whole."""
    s = t.layout
    size = WEIGHT_BYTES * t.model.total / g.layout.tp
    elsewhere = (t.job.rollout_gpus > 0) | (s.zero >= 3) | (s.pp > 1) | (g.layout.tp != s.tp) | (s.ep > 1)
    bandwidth = peer_bytes_per_s(t, s.gpus + t.job.rollout_gpus > s.gpus_per_node)
    seconds = size / np.where(bandwidth > 0, bandwidth, np.inf)
    return np.where(elsewhere & (s.gpus + t.job.rollout_gpus > 1), seconds, 0.0)
