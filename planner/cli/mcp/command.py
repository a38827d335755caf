"""`gpu-planner mcp`: tools for an agent over standard input and output."""

from __future__ import annotations

import importlib.util

import click

from planner.cli.exits import ExitCode
from planner.cli.options import Invocation, basis_option, pass_invocation
from planner.cli.terminal.streams import plain_streams, say
from planner.errors import Problem, UserError


@click.command()
@basis_option
@pass_invocation
def mcp(invocation: Invocation, basis: str) -> int:
    """Serve the tools plan, estimate, memory, offers and rightsize over the Model Context Protocol on stdin and stdout.

    Register the command `gpu-planner mcp` with your agent, which starts it. Needs the extra mcp.
    """
    if importlib.util.find_spec("mcp") is None:
        raise UserError(Problem("", "mcp", "needs the protocol's SDK: pip install 'gpu-planner[mcp]'."))
    import anyio

    from planner.api.planner import Planner
    from planner.cli.mcp.server import serve

    planner = Planner(config=invocation.config, state=invocation.state, basis="spec" if basis == "spec" else "measured")
    say("serving tools on stdin and stdout; stop with Ctrl+C or by closing stdin")
    with plain_streams():
        anyio.run(serve, planner)
    return ExitCode.ANSWERED
