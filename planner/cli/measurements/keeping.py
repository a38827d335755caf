"""Imported results in the log of predictions: ranges learn from them, and `validate` and `predictions` show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from planner.cli.terminal.streams import say
from planner.units import counted

if TYPE_CHECKING:
    from planner.observe.results.compared import Compared
    from planner.session import Session


def keep_results(session: Session, compared: Iterable[Compared]) -> None:
    """Keep each result that was predicted and is not there yet, and say how many; raises `NotKeptError`."""
    import msgspec

    from planner.session.foreseen import GENERATING, foreseen, log_results

    log = session.predictions
    values = log.seen()
    there = [(one.request, {name: of.value for (said, name), of in values.items() if said == one.id}) for one in log.predicted()]
    pairs, known = [], 0
    for one in compared:
        figures = {verdict.quantity for verdict in one.verdicts if verdict.predicted is not None and verdict.quantity in GENERATING}
        seen: dict[str, float] = {name: value for name, value in one.seen.items() if name in figures}
        request = msgspec.to_builtins(one.request)
        if one.refused or not seen:
            continue
        if (request, seen) in there:
            known += 1
            continue
        pairs.append(foreseen(session, one.request, seen, "import", one.title))
    if pairs:
        log_results(session, pairs)
    if pairs or known:
        say(f"{counted(len(pairs), 'result')} kept for validate" + (f", {known:,} there already" if known else ""))
