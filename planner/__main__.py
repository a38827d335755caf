"""`python -m planner`: the command line without the terminal program."""

from __future__ import annotations

import sys

from planner.cli import main

if __name__ == "__main__":
    sys.exit(main())
