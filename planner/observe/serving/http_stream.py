"""One HTTP/1.1 request whose answer is read as it arrives: lines with their times of arrival.

Only the standard library is used, because a client of the base install has to time single tokens of many answers at once.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

LONGEST_LINE = 1 << 20
MOST_BODY = 1 << 24
REFUSED_BYTES = 300


class ServerRefusedError(Exception):
    """An answer other than 200, or no answer; the text has the status and the first words."""

    def __init__(self, words: str, status: int | None = None) -> None:
        super().__init__(words)
        self.status = status


class Address(NamedTuple):
    """Destination of requests."""

    host: str
    port: int
    path: str
    tls: bool


def address_of(url: str) -> Address:
    """Parts of an http or https address; raises `ValueError` for anything else."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{url!r} does not begin with http:// or https:// and a host")
    tls = parts.scheme == "https"
    return Address(parts.hostname, parts.port or (443 if tls else 80), parts.path.rstrip("/"), tls)


async def lines(
    address: Address, path: str, body: dict[str, Any] | None, headers: dict[str, str], timeout_s: float
) -> AsyncIterator[tuple[float, bytes]]:
    """(time on the loop's clock, line) of the answer to a POST of `body`, or to a GET without one; raises `ServerRefusedError`."""
    clock = asyncio.get_running_loop().time
    until_s = clock() + timeout_s
    reader, writer = await _within(_open(address), until_s)
    try:
        writer.write(_request(address, path, body, headers))
        await _within(writer.drain(), until_s)
        status, fields = await _head(reader, until_s)
        chunks = _chunks(reader, fields, until_s)
        if status != 200:
            first = b"".join([part async for part in chunks])[:REFUSED_BYTES].decode(errors="replace").strip()
            raise ServerRefusedError(f"HTTP {status}" + (f": {first}" if first else ""), status)
        begun = b""
        async for part in chunks:
            at_s = clock()
            *whole, begun = (begun + part).split(b"\n")
            if len(begun) > LONGEST_LINE:
                raise ServerRefusedError(f"sent a line of more than {LONGEST_LINE >> 10} KiB")
            for line in whole:
                yield at_s, line.rstrip(b"\r")
        if begun:
            yield clock(), begun
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        raise ServerRefusedError(f"broke off: {getattr(error, 'strerror', None) or error}") from None
    finally:
        writer.close()


async def _open(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    secure = ssl.create_default_context() if address.tls else None
    try:
        return await asyncio.open_connection(address.host, address.port, ssl=secure, limit=LONGEST_LINE)
    except OSError as error:
        raise ServerRefusedError(f"cannot be reached: {error.strerror or error}") from None


def _request(address: Address, path: str, body: dict[str, Any] | None, headers: dict[str, str]) -> bytes:
    text = b"" if body is None else json.dumps(body).encode()
    fields = {"Host": f"{address.host}:{address.port}", "Connection": "close", "Accept": "*/*", **headers}
    if body is not None:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(text))}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{'GET' if body is None else 'POST'} {address.path}{path} HTTP/1.1\r\n{head}\r\n".encode() + text


async def _head(reader: asyncio.StreamReader, until_s: float) -> tuple[int, dict[str, str]]:
    head = (await _within(reader.readuntil(b"\r\n\r\n"), until_s)).decode("latin-1").split("\r\n")
    words = head[0].split(" ")
    if len(words) < 2 or not words[1].isdecimal():
        raise ServerRefusedError("does not answer as an HTTP server does")
    pairs = (line.partition(":") for line in head[1:] if line)
    return int(words[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _chunks(reader: asyncio.StreamReader, fields: dict[str, str], until_s: float) -> AsyncIterator[bytes]:
    """Body in the parts in which it arrives, by chunks, by its length, or to the end of the connection."""
    read = 0
    if "chunked" in fields.get("transfer-encoding", "").lower():
        while size := _size(await _within(reader.readline(), until_s)):
            yield await _within(reader.readexactly(size), until_s)
            await _within(reader.readexactly(2), until_s)
            read = _bounded(read + size)
        return
    left = int(fields["content-length"]) if fields.get("content-length", "").isdecimal() else None
    while left is None or left > 0:
        part = await _within(reader.read(min(1 << 16, left) if left else 1 << 16), until_s)
        if not part:
            break
        read, left = _bounded(read + len(part)), None if left is None else left - len(part)
        yield part


def _size(line: bytes) -> int:
    """Bytes of a chunk, from the line before it; raises `ServerRefusedError` if the connection ended instead."""
    if not line.strip():
        raise ServerRefusedError("ended the connection in the middle of an answer")
    return int(line.split(b";")[0], 16)


def _bounded(read: int) -> int:
    if read > MOST_BODY:
        raise ServerRefusedError(f"sent more than {MOST_BODY >> 20} MiB")
    return read


async def _within(waited: Any, until_s: float) -> Any:
    try:
        return await asyncio.wait_for(waited, max(1e-3, until_s - asyncio.get_running_loop().time()))
    except TimeoutError:
        raise ServerRefusedError("did not answer in time") from None
