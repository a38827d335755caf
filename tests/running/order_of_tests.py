"""The order in which several processes try the tests, so that no processor idles while a test waits, nor at the end; and what they report."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

FUZZERS = "test_fuzz.py"
"""Each of its tests computes for some five seconds, with programs it asks now and then."""
LONG = frozenset({"test_frames.py", "test_journeys.py", "test_strangers_on_screen.py"})
"""Tests of several seconds: nobody waits for them where they come early."""
HOOKED = "test_security.py"
"""It asks Python to be told of what a process does, each `id` among it, which cannot be taken back: it comes last."""
WAITING = ("process", "pty", "server")
"""Markers of tests that wait for others."""


def ordered(tests: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """`tests` in as many blocks as pytest-xdist deals out at first, of the same size.

    Each block begins with a fuzzer. Then half of the processes try what waits, while the others compute. Files stay whole, as tests of one
    file share what they set up; what is left of a block is taken over by processes that are done with theirs.
    """
    heads: list[list[pytest.Item]] = [[] for _ in range(processes)]
    waiting: dict[str, list[pytest.Item]] = {}
    computing: list[pytest.Item] = []
    long: list[pytest.Item] = []
    fuzzers: list[pytest.Item] = []
    last: list[pytest.Item] = []
    for test in tests:
        if test.path.name == FUZZERS:
            fuzzers.append(test)
        elif test.path.name == HOOKED:
            last.append(test)
        elif any(test.get_closest_marker(name) for name in WAITING):
            waiting.setdefault(test.path.name, []).append(test)
        else:
            (long if test.path.name in LONG else computing).append(test)
    for turn, test in enumerate(fuzzers):
        heads[turn % processes].append(test)
    half = (processes + 1) // 2
    for turn, file in enumerate(waiting.values()):
        heads[turn % half] += file
    for turn, test in enumerate(long):
        heads[half + turn % (processes - half) if processes > half else 0].append(test)
    rest, left, found = iter(computing), len(tests), list[pytest.Item]()
    for number, head in enumerate(heads):
        size = left // (processes - number)
        block = [*head, *islice(rest, max(size - len(head), 0))]
        left -= len(block)
        found += block
    return [*found, *rest, *last]


def report_results_alone(config: pytest.Config) -> None:
    """Have this process of pytest-xdist report no setup and teardown that passes: that is half of what a test costs beside itself."""
    for hook in config.hook.pytest_runtest_logreport.get_hookimpls():
        if type(hook.plugin).__name__ == "WorkerInteractor":
            hook.function = _of_results(hook.function)  # type: ignore[misc]  # there is no public way to report less


def _of_results(report: Callable[..., object]) -> Callable[[pytest.TestReport], None]:
    def report_result(found: pytest.TestReport) -> None:
        if found.when == "call" or not found.passed:
            report(found)

    return report_result
