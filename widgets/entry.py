"""The console script `gpu-planner`: ends quietly at Ctrl+C from its first line on, before anything slower is imported."""

from planner.startup import end_at_interrupt

end_at_interrupt()


def main() -> int:
    """Run `gpu-planner` with the words of its command line and return its exit code."""
    from widgets.launch import main as launch

    return launch()
