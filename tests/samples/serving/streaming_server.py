"""A small OpenAI-compatible server that streams tokens at a known speed; run as a program, it prints its port.

    python streaming_server.py [--ttft S] [--tpot S] [--slots N]

A request waits `ttft` seconds for its first token and `tpot` for each further one; `slots` requests run at once, others wait in line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

MODEL = "known-speed"


class Server:
    """Answers one request a connection."""

    def __init__(self, ttft_s: float, tpot_s: float, slots: int) -> None:
        self.ttft_s, self.tpot_s = ttft_s, tpot_s
        self.slots = asyncio.Semaphore(slots)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, path = head.split(" ", 2)[:2]
            length = next((int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length:")), 0)
            body: dict[str, Any] = json.loads(await reader.readexactly(length)) if length else {}
            if method == "GET" and path.endswith("/models"):
                await self._plain(writer, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
            elif path.endswith("/completions"):
                await self._complete(writer, body, chat=path.endswith("/chat/completions"))
            else:
                await self._plain(writer, {"status": "ok"})
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _complete(self, writer: asyncio.StreamWriter, body: dict[str, Any], *, chat: bool) -> None:
        tokens = int(body.get("max_tokens") or body.get("max_completion_tokens") or 16)
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], dict):
            prompt = " ".join(part.get("text", "") for part in prompt)
        given = len(prompt if isinstance(prompt, list) else prompt.split())
        usage = {"prompt_tokens": given, "completion_tokens": tokens, "total_tokens": given + tokens}
        clock = asyncio.get_running_loop().time
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        async with self.slots:
            due = clock() + self.ttft_s
            for number in range(tokens):
                await asyncio.sleep(max(0.0, due - clock()))
                due += self.tpot_s
                await self._event(writer, self._choice(" tok", chat, None if number + 1 < tokens else "length"))
        await self._event(writer, {**self._choice("", chat, None), "choices": [], "usage": usage})
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()

    @staticmethod
    def _choice(text: str, chat: bool, ended: str | None) -> dict[str, Any]:
        said: dict[str, Any] = {"delta": {"content": text}} if chat else {"text": text}
        kind = "chat.completion.chunk" if chat else "text_completion"
        return {"id": "1", "object": kind, "model": MODEL, "created": 0, "choices": [{"index": 0, "finish_reason": ended, **said}]}

    @staticmethod
    async def _event(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
        writer.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        await writer.drain()

    @staticmethod
    async def _plain(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
        text = json.dumps(answer).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")
        writer.write(f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
        await writer.drain()


async def run() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ttft", type=float, default=0.05)
    parser.add_argument("--tpot", type=float, default=0.01)
    parser.add_argument("--slots", type=int, default=1 << 16)
    given = parser.parse_args()
    server = Server(given.ttft, given.tpot, given.slots)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)  # noqa: T201  # the test that started it reads the port
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(run())
