"""The server of known speed on the event loop of its client, whose clock advances only while both wait: no time passes for computing."""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from streaming_server import Server

QUIET_S = 0.005
"""Real time without a byte after which nothing is on its way from one end to the other."""


class Instants(selectors.DefaultSelector):
    """A selector that does not wait for timers: it advances its clock to the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        found = super().select(QUIET_S)
        if not found:
            self.now_s += timeout
        return found


class InstantLoop(asyncio.SelectorEventLoop):
    """An event loop on the clock of its selector."""

    def __init__(self) -> None:
        self.instants = Instants()
        super().__init__(self.instants)

    def time(self) -> float:
        """Return the seconds that timers have taken so far."""
        return self.instants.now_s


@contextmanager
def beside_its_client(server: Server) -> Iterator[str]:
    """Address (http://HOST:PORT) of `server`, which answers whatever is given to `asyncio.run` in this block."""

    async def beside(client: Coroutine[Any, Any, Any]) -> Any:
        listening = await asyncio.start_server(server.serve, sock=own)
        try:
            return await client
        finally:
            listening.close()

    def run(client: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=InstantLoop) as runner:
            return runner.run(beside(client))

    with socket.socket() as own, pytest.MonkeyPatch.context() as patch:
        own.bind(("127.0.0.1", 0))
        own.listen(64)
        patch.setattr(asyncio, "run", run)
        yield f"http://127.0.0.1:{own.getsockname()[1]}"
