"""Many small cases of one rule as one test: a test of its own costs two milliseconds, which is more than most of such cases take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

Test = Callable[..., None]


def each_case(names: str, cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, for cases that take a few milliseconds and need nothing made anew.

    All `cases` are tried, and each that fails is told with its values.
    """
    parameters, kept = [name.strip() for name in names.split(",")], list(cases)

    def decorate(test: Test) -> Test:
        def try_all(**fixtures: Any) -> None:
            faults = []
            for case in kept:
                try:
                    test(**fixtures, **dict(zip(parameters, case if len(parameters) > 1 else (case,), strict=True)))
                except Exception as fault:  # noqa: BLE001  # told below
                    fault.add_note(f"{names} = {case!r}")
                    faults.append(fault)
            if faults:
                raise ExceptionGroup(f"{len(faults)} of {len(kept)} cases", faults)

        assert kept, "no cases"
        asked = inspect.signature(test)
        fixtures = [one for name, one in asked.parameters.items() if name not in parameters]
        vars(try_all)["__signature__"] = asked.replace(parameters=fixtures)
        try_all.__name__, try_all.__qualname__, try_all.__module__ = test.__name__, test.__qualname__, test.__module__
        try_all.__doc__ = test.__doc__
        return try_all

    return decorate
