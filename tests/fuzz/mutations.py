"""Changes to a file that somebody else wrote: values of its structure, words, lines, bytes."""

from __future__ import annotations

import json
import random
import re
from typing import Any

from fuzz_values import JUNK

MOST_BYTES = 1 << 20
"""Larger ones are cut off: what is tried here is form, not size."""
PIECES = (
    *(
        b"",
        b" ",
        b"\n",
        b"\r",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xc2\x9b",
        b"\xe2\x80\xae",
        b"\x1b]0;x\x07",
        b'"',
        b"'",
        b"\\",
        b"#",
    ),
    *(
        b",",
        b":",
        b"=",
        b"{",
        b"}",
        b"[",
        b"]",
        b"[" * 5000,
        b'{"a":' * 500,
        b"-",
        b"NaN",
        b"Infinity",
        b"-1",
        b"0",
        b"1e999",
        b"1e-320",
    ),
    *(
        b"1e308",
        b"9" * 30,
        b"9" * 5000,
        b"0x10",
        b"1_000",
        "１２²".encode(),
        b"null",
        b"true",
        b"{}",
        b"[]",
        b"\\u0000",
        b"\\ud800",
    ),
)
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
SIZES = (0, 1, 7, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


def changed(content: bytes, rng: random.Random, *, binary: bool = False) -> bytes:
    """`content` with one to five changes, most often to values where it is JSON, else to words, lines and bytes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        ways = (_bytes, _integers, _cut) if binary else (_json, _json, _json, _number, _number, _piece, _line, _bytes, _cut)
        content = rng.choice(ways)(content, rng)[:MOST_BYTES]
    return content


def _json(content: bytes, rng: random.Random) -> bytes:
    """One value of one document replaced, left out, given again or wrapped; lines of JSON are changed one by one."""
    lines = content.splitlines(keepends=True) if b"}\n{" in content else [content]
    place = rng.randrange(len(lines)) if lines else 0
    try:
        document = json.loads(lines[place])
    except (ValueError, IndexError, RecursionError):
        return _number(content, rng)
    places = list(_places(document))
    if places:
        table, key = rng.choice(places)
        way = rng.random()
        if way < 0.6:
            table[key] = rng.choice(JUNK)
        elif way < 0.75:
            del table[key]
        elif way < 0.9:
            table[key] = rng.choice(([table[key]], {"a": table[key]}, str(table[key]), [table[key]] * 50))
        else:
            other, its = rng.choice(places)
            table[key] = json.loads(json.dumps(other.get(its) if isinstance(other, dict) else None))
    try:
        text = json.dumps(document, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return content
    lines[place] = text + (b"\n" if lines[place].endswith(b"\n") else b"")
    return b"".join(lines)


def _places(document: Any) -> Any:
    """Every table or list of a document with each of its keys."""
    waiting = [document]
    while waiting:
        one = waiting.pop()
        keys = one if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            yield one, key
            waiting.append(one[key])


def _number(content: bytes, rng: random.Random) -> bytes:
    found = list(NUMBER.finditer(content))
    if not found:
        return _piece(content, rng)
    one = rng.choice(found)
    return content[: one.start()] + rng.choice(PIECES) + content[one.end() :]


def _piece(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.choice(PIECES) + content[place + rng.choice((0, 0, 1, 5, 20)) :]


def _line(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.random()
    if way < 0.4:
        del lines[place]
    elif way < 0.7:
        lines.insert(place, lines[other] * rng.choice((1, 2, 100)))
    else:
        lines[place], lines[other] = lines[other], lines[place]
    return b"".join(lines)


def _bytes(content: bytes, rng: random.Random) -> bytes:
    found = bytearray(content or b"\0")
    for _ in range(rng.choice((1, 2, 10))):
        found[rng.randrange(len(found))] = rng.randrange(256)
    return bytes(found)


def _integers(content: bytes, rng: random.Random) -> bytes:
    """Four or eight bytes, on a boundary of four or anywhere, as a size that no file has."""
    width = rng.choice((4, 8))
    place = rng.randrange(len(content) + 1)
    size = rng.choice(SIZES) % (1 << 8 * width)
    return content[:place] + size.to_bytes(width, "little") + content[place + width :]


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)] if rng.random() < 0.3 else content
