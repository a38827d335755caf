"""`gpu-planner estimate`: JSON lines in, JSON lines out, in order; lines are answered as they arrive, in this process or on a cluster."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import sys
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import click

from planner.cli.cluster.option import cluster_of, on_option
from planner.cli.estimate.forks import Shared, spare_processors
from planner.cli.estimate.lines import LONGEST_LINE, answer_lines, encoder
from planner.cli.exits import ExitCode
from planner.cli.options import Invocation, exact_option, pass_invocation
from planner.errors import Problem, UserError
from planner.reading import open_file
from planner.startup import keep_freed_memory
from planner.text import escaped_json

if TYPE_CHECKING:
    from planner.session import Session

CLUSTER_CHUNK_LINES = 4096
"""Lines of a chunk: they take half a second of one processor, much longer than sending them."""
CHUNKS_READ = 256
"""Maximum number of chunks whose answers are not written yet."""


class LineChunk(NamedTuple):
    """A chunk of lines, and the folders that its answers depend on."""

    config: Path | None
    state: Path | None
    exact: bool
    lines: list[bytes]


def answer_on(on: str, invocation: Invocation, arriving: Iterator[list[bytes]], out: BinaryIO) -> None:
    """Answer the `arriving` lines in order on the cluster named `on`; raises `UserError`."""
    with cluster_of(on) as cluster:
        assert cluster is not None
        chunks = _chunks(invocation, arriving)
        while some := list(islice(chunks, CHUNKS_READ)):
            for answers in cluster(answer_chunk, some):
                out.write(answers)
                out.flush()


def _chunks(invocation: Invocation, arriving: Iterator[list[bytes]]) -> Iterator[LineChunk]:
    kept: list[bytes] = []
    for lines in arriving:
        kept += lines
        while len(kept) >= CLUSTER_CHUNK_LINES:
            yield LineChunk(invocation.config, invocation.state, invocation.exact, kept[:CLUSTER_CHUNK_LINES])
            kept = kept[CLUSTER_CHUNK_LINES:]
    if kept:
        yield LineChunk(invocation.config, invocation.state, invocation.exact, kept)


def answer_chunk(chunk: LineChunk) -> bytes:
    """Answers to a chunk, one line each."""
    session = _session(chunk.config, chunk.state, chunk.exact)
    return escaped_json(encoder.encode_lines(answer_lines(session, chunk.lines)))


@cache
def _session(config: Path | None, state: Path | None, exact: bool) -> Session:
    """Session of a worker, cached for its next chunk."""
    from planner.session import Session

    session = Session.open(config=config, state=state)
    session.exact = exact
    return session


CHUNK_LINES = 4096
"""Lines evaluated together in one process: enough to amortise the cost of a call, few enough for answers to appear steadily."""
READ_BYTES, BULK_BYTES, MOST_BULK_BYTES = 1 << 18, 1 << 15, 1 << 25
"""Bytes of one read; size of a read above which further input is collected; and the maximum that is collected."""
PAUSE_S = 0.005
"""Seconds without further input after which the lines collected so far are answered."""


@click.command()
@click.argument("file", default="-", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@on_option
@exact_option
@pass_invocation
def estimate(invocation: Invocation, file: Path, on: str | None) -> int:
    """Evaluate given candidates without a search. Each line of FILE (or stdin) is a JSON object.

    Only model, gpu and task are required. The answer lists all defaults under "assumed". The answer to an unusable line is
    {"id", "error"}; other lines are answered as usual. `gpu-planner schema request` describes a line.
    """
    if str(file).lstrip().startswith("{"):
        raise UserError(
            Problem("", "FILE", "is a line, not a file: write it into a file, or pipe it: echo '{…}' | gpu-planner estimate")
        )
    out = sys.stdout.buffer
    with contextlib.nullcontext(sys.stdin.buffer) if str(file) == "-" else open_file(file) as source:
        if on is None:
            _answer_all(invocation.session(), source, out)
        else:
            answer_on(on, invocation, arriving_lines(source.fileno(), CLUSTER_CHUNK_LINES), out)
    return ExitCode.ANSWERED


def _answer_all(session: Session, source: BinaryIO, out: BinaryIO) -> None:
    keep_freed_memory()
    forks = spare_processors()
    most = CHUNK_LINES * (1 + forks)
    shared = Shared(lambda lines: escaped_json(encoder.encode_lines(answer_lines(session, lines))), forks)
    try:
        for lines in arriving_lines(source.fileno(), most):
            each = -(-len(lines) // -(-len(lines) // (2 * most)))
            for start in range(0, len(lines), each):
                for answers in shared(lines[start : start + each]):
                    out.write(answers)
                    out.flush()
    finally:
        shared.end()


def arriving_lines(descriptor: int, most: int) -> Iterator[list[bytes]]:
    """Lists of complete lines that have arrived: one line from a slow writer, about `most` from a file."""
    begun, mark = b"", codecs.BOM_UTF8
    while block := _arrived(descriptor, most):
        *lines, begun = (begun + block.removeprefix(mark)).split(b"\n")
        begun, mark = begun[: LONGEST_LINE + 1], b""  # a line that is too long is cut here
        if lines:
            yield lines
    if begun:
        yield [begun]


def _arrived(descriptor: int, most: int) -> bytes:
    """Bytes of one read, or of input written without a pause, up to about `most` lines."""
    blocks = [os.read(descriptor, READ_BYTES)]
    size, lines = len(blocks[0]), blocks[0].count(b"\n")
    while BULK_BYTES <= size < MOST_BULK_BYTES and lines < most and select.select([descriptor], [], [], PAUSE_S)[0]:
        block = os.read(descriptor, READ_BYTES)
        if not block:
            break
        blocks.append(block)
        size, lines = size + len(block), lines + block.count(b"\n")
    return b"".join(blocks)
