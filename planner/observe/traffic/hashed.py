"""Traces of requests as JSON lines: lengths, and hashes of the blocks their prompts begin with.

Mooncake (github.com/kvcache-ai/Mooncake, FAST25-release/traces): `timestamp` in ms, `input_length`, `output_length`, `hash_ids` of blocks
of 512 tokens. ServeGen's offline traces (github.com/alibaba/ServeGen, data/offline): the same without times, blocks of 16.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from planner.observe.traffic.lines import Lines
from planner.workload.traffic.trace import Trace, TraceBuilder

BLOCKS = (16, 32, 64, 128, 256, 512, 1024)
"""Tokens of a block, one of which the lengths tell."""


class HashedRequest(msgspec.Struct):
    """One line; keys that are not read are left alone."""

    input_length: float
    timestamp: float | None = None
    """Milliseconds."""
    output_length: float | None = None
    hash_ids: list[int] | None = None


def read_hashed(path: Path) -> Trace:
    """The trace in `path`; raises `UserError`."""
    decoder = msgspec.json.Decoder(HashedRequest)
    lines, found = Lines(path), list[HashedRequest]()
    for number, line in lines:
        try:
            found.append(decoder.decode(line))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            lines.wrong(number, f"is no request of this trace: {error}.")
    timed = any(one.timestamp is not None for one in found)
    builder = TraceBuilder("Mooncake trace" if timed else "ServeGen offline trace", str(path))
    prefixes = _prefixes(found)
    for one, prefix in zip(found, prefixes, strict=True):
        if timed and one.timestamp is None:
            builder.left_out["without a time"] += 1
        else:
            builder.add((one.timestamp or 0.0) / 1e3, one.input_length, one.output_length, prefix)
    builder.left_out.update(lines.unusable())
    known = any(prefix is not None for prefix in prefixes)
    return builder.trace(timed=timed, prefix_basis="blocks seen before, in a cache that forgets nothing" if known else "")


def _prefixes(requests: list[HashedRequest]) -> list[float | None]:
    """Tokens of each prompt's leading blocks that came before in the file; None where no request has blocks."""
    hashed = [one for one in requests if one.hash_ids]
    if not hashed:
        return [None] * len(requests)
    widest = max(one.input_length / len(one.hash_ids or [0]) for one in hashed)
    block = next((size for size in BLOCKS if size >= widest), BLOCKS[-1])
    seen: set[int] = set()
    found: list[float | None] = []
    for one in requests:
        ids = one.hash_ids or []
        known = next((place for place, name in enumerate(ids) if name not in seen), len(ids))
        seen.update(ids)
        found.append(float(min(known * block, one.input_length)))
    return found
