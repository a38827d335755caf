"""Console script: opens the terminal program, or hands over to the command line.

Nothing but the standard library is imported until it is known which of the two is wanted.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planner.startup import can_draw, collect_rarely, prepare

if TYPE_CHECKING:
    from widgets.background.planner_process import PlannerProcess
    from widgets.options import AppOptions

ENCODINGS_WITH_GLYPHS = ("utf", "cp65001")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `gpu-planner` and return its exit code."""
    prepare()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments and can_draw():
        from widgets.options import AppOptions

        return open_app(AppOptions())
    from planner.cli import main as command_line

    return command_line(open_from_command_line, arguments)


def open_from_command_line(**given: Any) -> int:
    """Open the terminal program with the options that the command line was given."""
    from widgets.options import AppOptions

    return open_app(AppOptions(**{name: value for name, value in given.items() if value is not None}))


def open_app(options: AppOptions) -> int:
    """Run the app until it is closed; raises `UserError` before the screen is taken over."""
    from widgets.background.planner_process import planner_process

    prepare_environment()
    collect_rarely()
    with planner_process(options) as process:
        return _run(options, process)


def _run(options: AppOptions, process: PlannerProcess | None) -> int:
    options = options._replace(
        colour=options.colour and not os.environ.get("NO_COLOR"),
        ascii_only=options.ascii_only or _plain_terminal(),
        tour=True,
    )
    from widgets.signals import watched

    _import_asyncio()
    with watched() as watch:
        from widgets.app import PlannerApp
        from widgets.drawing import theme

        theme.require(options.theme)
        watch.app = app = PlannerApp(options)
        app.session_thread.process = process
        try:
            app.run()
        except Exception as fault:  # noqa: BLE001  # reported below, once the terminal is given back
            watch.give_back()
            app.fault = app.fault or fault
    gc.freeze()  # all of it ends with the process; looking through it for cycles once more takes a twentieth of a second
    code = app.return_code or 0
    if app.fault is not None:
        from widgets.crash_report import crash_text
        from widgets.textual_quirks import CRASHED

        sys.stderr.write(crash_text(app.fault, options.state))
        code = CRASHED
    if app.session_thread.busy:  # with an answer that nobody waits for any more, but Python's own end would
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(code)
    return code


def _import_asyncio() -> None:
    """Import asyncio as Python without OpenSSL does, which takes a fifth of the time: nothing of the screen's speaks TLS by asyncio."""
    if not {"asyncio", "ssl"} & sys.modules.keys():
        sys.modules["ssl"] = None  # type: ignore[assignment]  # an import of it fails
        import asyncio  # noqa: F401

        del sys.modules["ssl"]


def prepare_environment() -> None:
    """Set what Textual reads when it is imported: over ssh nothing is animated."""
    if os.environ.get("SSH_CONNECTION"):
        os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
        os.environ.setdefault("TEXTUAL_FPS", "30")


def _plain_terminal() -> bool:
    """True if only ASCII can be shown."""
    encoding = (sys.stdout.encoding or "").casefold()
    return not encoding.startswith(ENCODINGS_WITH_GLYPHS) or os.environ.get("TERM") in {"linux", "vt100"}


if __name__ == "__main__":
    sys.exit(main())
