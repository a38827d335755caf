"""`gpu-planner help`: every command and option at once, as a tree, as Markdown, or as a manual page."""

from __future__ import annotations

import datetime as dt
import inspect
import os
import re
import time
from collections.abc import Iterator
from typing import Literal, NamedTuple

import click

import planner
from planner.cli.commands import did_you_mean
from planner.cli.exits import ExitCode

Form = Literal["tree", "markdown", "man"]
PROGRAM = "gpu-planner"
ROFF = re.compile(r"^([.'])", re.MULTILINE)
"""Signs that begin a request of roff at the start of a line."""


class CommandPage(NamedTuple):
    """One command as its help describes it."""

    path: str
    """All of its words: 'gpu-planner offers refresh'."""
    usage: str
    paragraphs: list[str]
    options: list[tuple[str, str]]
    group: bool

    @property
    def summary(self) -> str:
        """The first sentence."""
        return self.paragraphs[0].partition(". ")[0].rstrip(".") if self.paragraphs else ""


@click.command()
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.option("--tree", "form", flag_value="tree", help="A line for every command.")
@click.option("--markdown", "form", flag_value="markdown", help="Every command with its options, as Markdown.")
@click.option("--man", "form", flag_value="man", help="The same as a manual page: gpu-planner help --man > gpu-planner.1.")
def help_command(words: tuple[str, ...], form: Form | None) -> int:
    """Show the help of COMMAND, or of every command."""
    root = click.get_current_context().find_root().command
    command, context = root, click.Context(root, info_name=PROGRAM, **root.context_settings)
    for word in words:
        found = command.get_command(context, word) if isinstance(command, click.Group) else None
        if found is None:
            known = command.list_commands(context) if isinstance(command, click.Group) else []
            raise click.UsageError(f"No such command {word!r}.{did_you_mean(word, known)}")
        command, context = found, click.Context(found, info_name=word, parent=context)
    if form is None:
        click.echo(command.get_help(context))
        return ExitCode.ANSWERED
    for line in FORMS[form](list(pages(command, context))):
        click.echo(line)
    return ExitCode.ANSWERED


def pages(command: click.Command, context: click.Context) -> Iterator[CommandPage]:
    """`command` and all commands in it, hidden ones left out."""
    yield _page(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from pages(inner, click.Context(inner, info_name=name, parent=context))


def _page(command: click.Command, context: click.Context) -> CommandPage:
    text = inspect.cleandoc(command.help or "").partition("\f")[0]
    records = [record for param in command.get_params(context) if (record := param.get_help_record(context)) is not None]
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]
    return CommandPage(context.command_path, usage, paragraphs, records, isinstance(command, click.Group))


def _tree(found: list[CommandPage]) -> Iterator[str]:
    base = found[0].path.count(" ")
    names = ["  " * (page.path.count(" ") - base) + page.path.rpartition(" ")[2] for page in found]
    width = max(map(len, names))
    for name, page in zip(names, found, strict=True):
        yield f"{name.ljust(width)}  {page.summary}".rstrip()


def _markdown(found: list[CommandPage]) -> Iterator[str]:
    yield "# Commands\n\nMade from the program itself by `gpu-planner help --markdown`."
    for page in found:
        yield f"\n## {page.path}\n\n```text\n{page.usage}\n```\n"
        yield from (f"{_marked(part)}\n" for part in page.paragraphs)
        if page.options:
            yield "| option | |\n|---|---|"
            yield from (f"| `{name.replace('|', chr(92) + '|')}` | {_marked(words)} |" for name, words in page.options)


def _marked(text: str) -> str:
    """`text` as Markdown that reads as it stands."""
    return re.sub(r"([\\*_<>|\[\]`])", r"\\\1", " ".join(text.split()))


def _man(found: list[CommandPage]) -> Iterator[str]:
    stamp = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))  # reproducible-builds.org/specs/source-date-epoch
    day = dt.datetime.fromtimestamp(stamp, dt.UTC).date()
    first, *others = found
    yield f'.TH GPU-PLANNER 1 "{day}" "gpu-planner {planner.__version__}" "User Commands"\n.ad l'
    yield f".SH NAME\n{PROGRAM} \\- {_roff(first.summary)}\n.SH SYNOPSIS\n.B {_roff(first.usage)}"
    yield ".SH OPTIONS"
    yield from _man_options(first)
    yield ".SH COMMANDS"
    for page in others:
        yield f".SS {_roff(page.path.partition(' ')[2])}\n.B {_roff(page.usage)}"
        yield from (f".PP\n{_roff(part)}" for part in page.paragraphs)
        yield from _man_options(page)


def _man_options(page: CommandPage) -> Iterator[str]:
    for name, words in page.options:
        yield f".TP\n.B {_roff(name)}\n{_roff(words)}"


def _roff(text: str) -> str:
    """`text` as roff prints it."""
    plain = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    signs = "".join(sign if sign.isascii() else f"\\[u{ord(sign):04X}]" for sign in plain)
    return ROFF.sub(r"\\&\1", signs)


FORMS = {"tree": _tree, "markdown": _markdown, "man": _man}
