"""`python -m bench`, and `python …/bench` for an interpreter in which this package is not installed.

In the second form Python adds this folder to `sys.path`; it is removed again and only the package `bench` is
registered, so another interpreter sees its own packages and nothing of the planner's environment.
"""

import sys


def _register_package() -> None:
    """Make `bench` importable from this folder without a new entry on `sys.path`."""
    import importlib.util
    import os

    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # pathlib costs start-up and is not needed here
    sys.path[:] = [entry for entry in sys.path if entry and os.path.abspath(entry) != folder]  # noqa: PTH100  # see above
    location = os.path.join(folder, "__init__.py")  # noqa: PTH118  # see above
    spec = importlib.util.spec_from_file_location("bench", location, submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load the benchmark package from {folder}")
    package = importlib.util.module_from_spec(spec)
    sys.modules["bench"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    if not __package__:
        _register_package()
    if sys.argv[1:2] == ["ranks"]:
        from bench.kinds.ranks import main as rank

        sys.exit(rank(sys.argv[2:]))
    if sys.argv[1:2] == ["describe"]:
        import signal

        from bench.describe import main as describe

        if hasattr(signal, "alarm"):  # not on Windows
            signal.alarm(330)  # a safeguard in case the process that started it was killed
        sys.exit(describe())
    from bench.worker import main

    sys.exit(main())
