"""Exit codes, and the message for each kind of failure: data goes to stdout, messages to stderr."""

from __future__ import annotations

import enum
import errno
import signal
import sys
from collections.abc import Callable

import click

from planner import startup
from planner.cli.terminal.streams import StdoutLostError, say
from planner.durable import NotKeptError
from planner.errors import UserError


class ExitCode(enum.IntEnum):
    """Exit status of every command."""

    ANSWERED = 0
    """Success; for `plan`: something fits."""
    NOTHING_FOUND = 1
    """Nothing fits, or nothing was found."""
    WRONG_INPUT = 2
    """Wrong usage or input; every problem is on stderr."""
    BUG = 70
    """The program failed; the traceback is on stderr (EX_SOFTWARE of sysexits.h)."""
    OUTPUT_LOST = 74
    """Output or data could not be written, for example to a full disk; the reason is on stderr (EX_IOERR of sysexits.h)."""
    INTERRUPTED = startup.INTERRUPTED
    """Ctrl+C (128 + SIGINT)."""
    TERMINATED = 128 + signal.SIGTERM
    """SIGTERM, after results of a benchmark were stored or the screen was closed."""
    PIPE_CLOSED = 141
    """Reader of stdout went away (128 + SIGPIPE); there is no message, as for other tools in a pipe."""


MEANINGS = {
    "0": "answered",
    "1": "nothing fits, nothing was found, or a target or range was missed",
    "2": "wrong usage or input; every problem is on stderr, and nothing was done",
    "70": "the program failed; the traceback is on stderr",
    "74": "stdout or a file cannot be written; the reason is on stderr",
    "130": "Ctrl+C",
    "141": "stdout was closed by its reader",
    "143": "SIGTERM stopped a benchmark; its results are stored",
    "128 + N": "killed by signal N, as shown by a shell",
}
"""Exit code -> its meaning, for `--help` and docs/evidence/reliability.md."""


def guarded(run: Callable[[], int]) -> int:
    """Call `run` and convert every exception to an exit code and a message on stderr."""
    try:
        startup.raise_at_interrupt()
        code = _ended(run)
    except KeyboardInterrupt:  # a second Ctrl+C while the first is reported
        code = ExitCode.INTERRUPTED
    startup.end_at_interrupt()
    try:
        sys.stdout.flush()
    except OSError as refused:
        code = _lost(refused)
    return code


def _ended(run: Callable[[], int]) -> int:
    try:
        return run()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as wrong:
        if isinstance(wrong, click.NoSuchOption) and (hint := _key_hint(wrong)):
            wrong = click.UsageError(hint, wrong.ctx)
        with startup.stderr_may_fail():
            wrong.show(sys.stderr)
        return ExitCode.WRONG_INPUT
    except UserError as wrong:
        print_problems(wrong)
        return ExitCode.OUTPUT_LOST if isinstance(wrong, NotKeptError) else ExitCode.WRONG_INPUT
    except StdoutLostError as refused:
        return _lost(refused)
    except (KeyboardInterrupt, click.Abort):
        return _interrupted()
    except Exception as failure:  # noqa: BLE001  # Python's own status for a crash is 1, which here means "nothing fits"
        if _from_interrupt(failure):
            return _interrupted()
        with startup.stderr_may_fail():
            import traceback

            traceback.print_exc()
        return ExitCode.BUG


def _key_hint(wrong: click.NoSuchOption) -> str:
    """Hint for an unknown option that is a key of the workload, if the command has `--set`; '' otherwise."""
    from planner.workload.tasks import Workload

    key = wrong.option_name.lstrip("-").replace("-", "_")
    settable = wrong.ctx is not None and any(option.name == "settings" for option in wrong.ctx.command.params)
    return (
        f"No such option {wrong.option_name!r}: it is a key, --set {key}=…"
        if settable and key in Workload.__struct_fields__
        else ""
    )


def _interrupted() -> int:
    say("interrupted")
    return ExitCode.INTERRUPTED


def _from_interrupt(failure: BaseException | None) -> bool:
    """True if Ctrl+C caused `failure`: while a class is created, Python raises a RuntimeError instead."""
    while failure is not None and not isinstance(failure, KeyboardInterrupt):
        failure = failure.__cause__ or failure.__context__
    return failure is not None


def _lost(refused: OSError) -> int:
    """Exit code of a command whose stdout failed; prints the reason, unless the reader went away."""
    startup.forget(sys.stdout)
    if refused.errno in {errno.EPIPE, errno.ESHUTDOWN}:
        return ExitCode.PIPE_CLOSED
    say(f"error: cannot write to stdout: {refused.strerror}")
    return ExitCode.OUTPUT_LOST


def print_problems(wrong: UserError) -> None:
    """Write each problem to stderr on one line."""
    for problem in wrong.problems:
        say(f"error: {problem}")
