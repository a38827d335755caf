"""`python -m planner`: the command line without the terminal program; quiet at Ctrl+C from its first line on, as `widgets.entry`."""

import _signal  # type: ignore[import-not-found]  # built in: what is slower to import comes after it

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import sys

from planner.cli import main

if __name__ == "__main__":
    sys.exit(main())
