"""Exit codes, and the words of each way a command ends: stdout is data, stderr is narration, the code is for scripts."""

from __future__ import annotations

import enum
import os
import sys
import traceback
from collections.abc import Callable

import click

from planner.cli.terminal.streams import say
from planner.durable import NotKeptError
from planner.errors import UserError


class ExitCode(enum.IntEnum):
    """What the exit status of every command means."""

    ANSWERED = 0
    """The question was answered; for `plan`: something fits."""
    NOTHING_FOUND = 1
    """Nothing fits, or nothing was found."""
    WRONG_INPUT = 2
    """Wrong usage or input; every problem is on stderr."""
    BUG = 70
    """The program failed; the traceback is on stderr (EX_SOFTWARE of sysexits.h)."""
    OUTPUT_LOST = 74
    """What was to be written or kept is not there, for want of room for one; the reason is on stderr (EX_IOERR of sysexits.h)."""
    INTERRUPTED = 130
    """Ctrl+C (128 + SIGINT)."""
    PIPE_CLOSED = 141
    """The reader of stdout went away (128 + SIGPIPE); nothing is said, as for any tool in a pipe."""


def guarded(run: Callable[[], int]) -> int:
    """Call `run` and turn every way it can end into an exit code and, where something is wrong, words on stderr."""
    try:
        code = run()
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.ClickException as wrong:
        wrong.show(sys.stderr)
        return ExitCode.WRONG_INPUT
    except UserError as wrong:
        print_problems(wrong)
        return ExitCode.OUTPUT_LOST if isinstance(wrong, NotKeptError) else ExitCode.WRONG_INPUT
    except BrokenPipeError:
        _silence_stdout()
        return ExitCode.PIPE_CLOSED
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        return ExitCode.INTERRUPTED
    except Exception:  # noqa: BLE001  # Python's own status for a crash is 1, which here means "nothing fits"
        traceback.print_exc()
        return ExitCode.BUG
    return code


def print_problems(wrong: UserError) -> None:
    """Write every problem to stderr, one line each."""
    for problem in wrong.problems:
        say(f"error: {problem}")


def _silence_stdout() -> None:
    """Keep the interpreter's own flush at exit from complaining about the closed pipe."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
