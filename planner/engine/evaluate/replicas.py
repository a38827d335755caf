"""Replicas of candidates under a request rate: their speed, how their engine forms iterations, and their load."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, Rows, Table
from planner.engine.evaluate.candidates import Candidates, joined_candidates
from planner.engine.evaluate.evaluation import Evaluated, evaluate
from planner.engine.memory import sequences_that_fit
from planner.engine.performance.simulation.batching_rules import BatchingRules, batching_rules
from planner.engine.performance.simulation.iteration_time import IterationTime, iteration_time
from planner.engine.performance.simulation.load import Load, replica_load


class Replicas(msgspec.Struct, frozen=True):
    """One replica of each candidate."""

    candidates: Candidates
    table: Table
    """Table of the candidates."""
    time: IterationTime
    rules: BatchingRules
    whole: Floats
    """Sequences of full length that the cache holds, of shape [rows]."""
    burst: float
    """Fraction by which the request rate rises."""

    @property
    def rows(self) -> int:
        """Number of candidates."""
        return int(self.candidates.job_index.size)

    def layout(self, name: str) -> Floats:
        """Column `name` of the layouts, of shape [rows]."""
        return np.broadcast_to(getattr(self.candidates.layout, name), self.rows)

    def load(self, row: Rows, replicas: Floats) -> Load:
        """Load of the rows `row`, which may repeat, with a number of replicas for each."""
        candidates = self.candidates
        return replica_load(candidates.jobs, replicas, surge=self.burst, index=candidates.job_index[row])

    def at_load_of(self, parts: list[tuple[Evaluated, Rows]], row: Rows) -> Replicas:
        """Rows `row` at the replicas and sequences of the rows of `parts`, whose candidates differ in these alone."""
        candidates = joined_candidates([(e.candidates, rows) for e, rows in parts])
        table = replace(self.table.take(row), layout=candidates.layout)
        return Replicas(candidates, table, self.time.take(row), self.rules.take(row), self.whole[row], self.burst)

    def evaluated(self, row: Rows, replicas: Floats, in_flight: Floats) -> Evaluated:
        """Rows `row`, which may repeat, evaluated at `replicas`, each with `in_flight` sequences.

        Memory is that of full length: where more sequences run at once because their answers are still growing (`growing_room`), the cache
        is full.
        """
        candidates = self.candidates.take(row)
        layout, whole = candidates.layout, np.maximum(1.0, np.floor(self.whole[row]))
        sequences = np.where(np.floor(in_flight) <= self.rules.sequences[row], np.minimum(in_flight, whole), in_flight)
        layout = replace(layout, dp=replicas, gpus=layout.tp * layout.pp * replicas, sequences=sequences)
        return evaluate(replace(candidates, layout=layout), table=replace(self.table.take(row), layout=layout))


def replicas_of(parts: list[tuple[Evaluated, Rows]], burst: float) -> Replicas:
    """Replicas of the rows of each part, one part after the other; all parts share their jobs and chips."""
    candidates = joined_candidates([(e.candidates, rows) for e, rows in parts])
    alone = np.concatenate([np.broadcast_to(e.memory.max_sequences, e.table.rows)[rows] for e, rows in parts])
    first, rows = parts[0]
    table = candidates.table() if len(parts) > 1 else replace(first.table.take(rows), layout=candidates.layout)
    whole = most_sequences(table, alone)
    return Replicas(candidates, table, iteration_time(table), batching_rules(table, whole), whole, burst)


def most_sequences(table: Table, alone: Floats) -> Floats:
    """Sequences of mean length that the cache of each row can hold; infinite if nothing is cached.

    `alone` [rows]: sequences that fit beside everything else at the number of sequences of the layout (`MemoryColumns.max_sequences`).
    """
    return np.fmin(np.broadcast_to(alone, table.rows), sequences_that_fit(table))
