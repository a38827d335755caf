"""Console script `gpu-planner`: ends quietly at Ctrl+C from its first line on, before anything slower is imported."""

import _signal  # type: ignore[import-not-found]  # built in: `signal` and what it imports take three milliseconds to read

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # until `planner.startup` says more than that


def main() -> int:
    """Run `gpu-planner` with the words of its command line and return its exit code."""
    from widgets.launch import main as launch

    return launch()
