"""Server of the tools on standard input and output, built on the protocol's SDK."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

import planner
from planner.api.planner import Planner
from planner.cli.mcp.tools import TOOLS, ToolAnswer, call, schema_of
from planner.errors import UserError
from planner.text import clean

INSTRUCTIONS = (
    "Find which GPUs, and how many, to rent or buy for a transformer workload. Start with `plan`; figures have a range that should "
    "contain the true value nine times in ten, and a basis. Unknown is null, never 0."
)


async def serve(session: Planner) -> None:
    """Serve `session` until stdin ends."""
    server = server_of(session)
    async with _streams() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _streams() -> AbstractAsyncContextManager[Any]:
    """Streams of the process, which the SDK protects from stray output, or the replacements set by a caller in this process."""
    try:
        if sys.stdin.fileno() == 0:
            return stdio_server()
    except OSError:
        pass
    return stdio_server(anyio.wrap_file(sys.stdin), anyio.wrap_file(sys.stdout))


def server_of(session: Planner) -> Server[dict[str, object]]:
    """A server whose tools call `session`, one call at a time."""
    turn = anyio.Lock()
    offered = [
        types.Tool(
            name=tool.name,
            description=tool.about,
            input_schema=schema_of(tool.given),
            output_schema=schema_of(tool.answer),
            annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        )
        for tool in TOOLS
    ]

    async def list_tools(
        _context: ServerRequestContext[dict[str, object]], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=offered)

    async def call_tool(
        _context: ServerRequestContext[dict[str, object]], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async with turn:
            try:
                answered = await anyio.to_thread.run_sync(call, session, params.name, params.arguments or {})
            except UserError as wrong:
                return _result("\n".join(str(problem) for problem in wrong.problems), wrong=True)
        return _answer(answered)

    return Server(
        "gpu-planner", version=planner.__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


def _answer(answered: ToolAnswer) -> types.CallToolResult:
    found = _result(answered.text, wrong=False)
    data = msgspec.json.decode(msgspec.json.encode(answered.data))  # as in JSON, where infinite numbers are null
    return found.model_copy(update={"structured_content": data})


def _result(text: str, *, wrong: bool) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=clean(text))], is_error=wrong)
