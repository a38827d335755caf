"""Lines of `estimate` answered by a cluster: chunks out, answers back in order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from planner.cli.estimate.lines import answer_lines, encoder
from planner.text import escaped_json

if TYPE_CHECKING:
    from planner.cli.invocation import Invocation
    from planner.session import Session

CHUNK_LINES = 4096
"""Lines of a chunk: half a second of one processor, many times what it takes to send them."""
CHUNKS_READ = 256
"""Chunks that are read before their answers are written."""


class Asked(NamedTuple):
    """A chunk of lines, and the folders it is answered from."""

    config: Path | None
    state: Path | None
    exact: bool
    lines: list[bytes]


def answer_on(on: str, invocation: Invocation, arriving: Iterator[list[bytes]], out: BinaryIO) -> None:
    """Answer the lines that are `arriving` on the cluster named `on`, in order; raises `UserError`."""
    from planner.cli.cluster.option import cluster_of

    with cluster_of(on) as cluster:
        assert cluster is not None
        chunks = _chunks(invocation, arriving)
        while some := list(islice(chunks, CHUNKS_READ)):
            for answers in cluster(answered, some):
                out.write(answers)
                out.flush()


def _chunks(invocation: Invocation, arriving: Iterator[list[bytes]]) -> Iterator[Asked]:
    kept: list[bytes] = []
    for lines in arriving:
        kept += lines
        while len(kept) >= CHUNK_LINES:
            yield Asked(invocation.config, invocation.state, invocation.exact, kept[:CHUNK_LINES])
            kept = kept[CHUNK_LINES:]
    if kept:
        yield Asked(invocation.config, invocation.state, invocation.exact, kept)


def answered(asked: Asked) -> bytes:
    """The answers to a chunk, a line each."""
    session = _session(asked.config, asked.state, asked.exact)
    return escaped_json(encoder.encode_lines(answer_lines(session, asked.lines)))


@cache
def _session(config: Path | None, state: Path | None, exact: bool) -> Session:
    """The session of a worker, kept for its next chunk."""
    from planner.session import Session

    session = Session.open(config=config, state=state)
    session.exact = exact
    return session
