"""`gpu-planner bench --suite serve --out FILE`: a JSON line for each load, in the planner's own names."""

from __future__ import annotations

import msgspec

from planner.errors import UserError
from planner.observe.results.contents import Contents
from planner.observe.results.result import Reader, Result
from planner.schema import faults


def _read(contents: Contents) -> list[Result]:
    if problems := [problem for one in contents.objects for problem in faults(Result, one, contents.where)]:
        raise UserError(problems)
    return [msgspec.convert(one, Result) for one in contents.objects]


READER = Reader(
    "gpu-planner bench serve",
    lambda contents: contents.have("tool", "settings", "seen"),
    _read,
    "what bench --suite serve --out wrote",
)
