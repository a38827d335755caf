"""Options that `traffic` and `replay` share: the files, and what they do not hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from planner.cli.invocation import Number

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

files_argument = click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))


def length_options(command: Decorated) -> Decorated:
    """Add the lengths of requests that a source does not hold."""
    inputs = click.option(
        "--input-tokens", type=Number(1, 1e9), metavar="N", help="Tokens of each request, where the source does not say."
    )
    outputs = click.option("--output-tokens", type=Number(1, 1e9), metavar="N", help="The same for output.")
    return inputs(outputs(command))
