"""Pane 2: filter, table, and the reason of the highlighted row."""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from planner.engine.answers.plan import OfferAnswer, Plan, PlanRow
from planner.present.cells import BASIS_WORDS, SHORT_BASIS_WORDS, figure_text
from planner.present.choice.facets import Facets
from planner.present.choice.levers import lever_text
from planner.present.names import device_name, region_text
from planner.present.plan import fit_text, rate_text, throughput
from planner.units import duration_text, usd_text
from widgets.drawing.symbols import UNICODE, Symbols
from widgets.drawing.text import shorten_clauses
from widgets.drawing.text_field import TextField
from widgets.panes.frame import frame_of
from widgets.panes.ranking.table import Ranking

MOST_LEVERS = 5
"""Named below the table where nothing fits; enter shows all."""
TITLE_MARGIN = 18
"""Cells of the border, of the pane's number and of its name."""
SHOWS_ALL = "esc shows all"
OBJECTIVE_WORDS = {
    "cheapest": "cheapest first",
    "fastest": "fastest first",
    "flop-per-usd": "most FLOP per $ first",
    "fewest-gpus": "fewest GPUs first",
}
NEAREST = "nearest first"
"""Order of rows of which none is a solution."""

LATENCIES = (("request", "request"), ("TTFT", "ttft"), ("TPOT", "tpot"), ("wait", "wait"))


def latencies(row: PlanRow, plan: Plan | None) -> str:
    """Percentiles of requests to a service beside the targets; empty if there are no percentiles.

    Of 95 everything that is known; of 99 and 50 what was asked for.
    """
    targets = plan.task.get("targets", {}) if plan else {}
    lines = []
    for percentile in ("p99", "p95", "p50"):
        parts = []
        for what, latency in LATENCIES:
            found = getattr(getattr(row.answer, f"{latency}_s"), percentile, None)
            limit = targets.get(f"{percentile}_{latency}_s")
            asked = isinstance(limit, int | float)
            if found is not None and (asked or percentile == "p95"):
                parts.append(f"{what} {duration_text(found.value)}{f' of {duration_text(limit)}' if asked else ''}")
        lines += [f"{percentile}: {' · '.join(parts)}"] if parts else []
    return "   ".join(lines)


class RankingView(Vertical):
    """Pane 2: filter, table, and the reason of the highlighted row."""

    def __init__(self, *, symbols: Symbols = UNICODE) -> None:
        super().__init__(id="ranking-view")
        self._symbols = symbols
        self._problems: Sequence[str] = ()
        self._shown: tuple[Plan, str] | None = None
        self._explained: tuple[PlanRow | None, Plan | None] = None, None
        self._chips: tuple[Facets, str] | None = None

    def compose(self) -> ComposeResult:
        """Filter on top, the table, and the reason below."""
        yield TextField(placeholder="l4 h100 aws spot   $/h<5   sure>90   fits   !runpod   esc shows all", id="filter")
        yield Static(id="chips")
        yield Ranking(symbols=self._symbols, id="table")
        yield Static(Content("planning …"), id="reason")
        yield Static(id="here")

    @property
    def table(self) -> Ranking:
        """Rows."""
        return self.query_one(Ranking)

    def show(self, plan: Plan, basis: str) -> None:
        """A new plan."""
        self._problems = ()
        self.table.show(plan)
        here = self.query_one("#here", Static)
        here.display = any(row.here for row in plan.rows)
        here.update(self._here(plan), layout=False)
        self.title(plan, basis)

    def show_chips(self, facets: Facets, counts: str) -> None:
        """Show what the filter asks for, what of it cannot be used, and how many candidates it leaves."""
        self._chips = facets, counts
        line = self.query_one("#chips", Static)
        line.display = bool(facets.chips or facets.problems)
        parts: list[Content | str] = []
        for chips in (facets.chips, [_in_short(chip) for chip in facets.chips]):
            parts = [part for chip in chips for part in (Content.styled(f" {chip} ", "reverse"), " ")]
            left = self._room - Content.assemble(*parts).cell_length
            problems = shorten_clauses("  ".join(facets.problems), left, self._symbols.ellipsis)
            shown = Content.assemble(*parts, (problems, "$text-error"))
            texts = (f"{counts}   {SHOWS_ALL}".lstrip(), counts, counts.removesuffix(" that fit"))
            gap = "  " if problems else ""
            behind = next((gap + text for text in texts if text and len(gap + text) <= self._room - shown.cell_length), "")
            if behind:
                break
        line.update(shown + Content.styled(behind, "$quiet"), layout=False)

    def _here(self, plan: Plan) -> Content:
        """This machine's place in the plan, in sight wherever the table is scrolled to; G goes near it."""
        row = next((row for row in plan.rows if row.here), None)
        if row is None:
            return Content("")
        figure = throughput(row.answer)
        speed = (
            f"{figure_text(figure, rate_text)} tok/s {self._symbols.basis[row.basis]} {SHORT_BASIS_WORDS[row.basis]}"
            if figure and row.answer.fits
            else ""
        )
        standing = f"rank {row.rank}" if row.rank else row.why
        text = " · ".join(part for part in (device_name(row.gpu), speed, standing) if part)
        short = shorten_clauses(text, max(20, self._room - 5), self._symbols.ellipsis)
        return Content.assemble(("here ", "bold $accent" if row.rank else "$quiet"), (short, "" if row.rank else "$quiet"))

    def title(self, plan: Plan, basis: str) -> None:
        """Say how much is shown, by what order, on what basis."""
        self._shown = plan, basis
        table, frame = self.table, frame_of(self)
        room = frame.content_size.width  # the frame's: it is laid out before its content is
        gpus = f"{table.groups} GPU{'s' * (table.groups != 1)}{' matching' if table.narrowed else ''}"
        ranked = OBJECTIVE_WORDS[str(plan.task.get("objective") or "cheapest")] if any(row.rank for row in plan.rows) else NEAREST
        by = table.order_words or (ranked.replace(" first", " last") if table.order.descending else ranked)
        spec = " · DATA SHEETS ONLY" if basis == "spec" else ""
        counted = f"{gpus} · {by}{spec}{f' · {len(table.marked)} marked' if table.marked else ''}"
        more = ", c compares" if table.marked else ""
        more += " · h l shift" if table.wide else ""
        fit = "" if table.filtered else f" · {fit_text(plan)}"  # else the filter's line counts
        texts = (counted + more + fit, counted + more + re.sub(r" of [\d,]+", "", fit), counted + more)
        title = next((text for text in texts if len(text) + TITLE_MARGIN <= room), gpus + more)
        signs = self._symbols.basis
        used = {row.basis for row in plan.rows} if table.signs_basis else set()
        long, short = (
            "  ".join(f"{signs[basis]} {words[basis]}" for basis in signs if basis in used)
            for words in (BASIS_WORDS, SHORT_BASIS_WORDS)
        )
        legend = long if len(long) + 4 <= room else short
        frame.entitle(title, legend)

    def on_resize(self) -> None:
        """Fit the legend, the reason, the filter's line and that of this machine to the new width."""
        if self._shown is not None:
            self.query_one("#here", Static).update(self._here(self._shown[0]), layout=False)
            self.title(*self._shown)
            self.explain(*self._explained)
        if self._chips is not None:
            self.show_chips(*self._chips)

    def refuse(self, problems: Sequence[str]) -> None:
        """Keep the last plan, marked stale, and say what is wrong."""
        self._problems = problems
        self.table.set_stale(True)
        self.query_one("#reason", Static).update(
            Content("\n").join(Content.styled(text, "$text-error") for text in problems), layout=False
        )

    def explain(self, row: PlanRow | None, plan: Plan | None) -> None:
        """Reason of the highlighted row."""
        self._explained = row, plan
        if self._problems:
            return
        if row is None:
            self.query_one("#reason", Static).update(Content(""), layout=False)
            return
        lines = [Content.assemble(("this machine: " if row.here else "", "bold $accent"), row.why)]
        helps = plan is not None and row.rank is None and not row.here
        levers = [lever for lever in plan.levers if lever.after is None][:MOST_LEVERS] if plan is not None and helps else []
        lines += [
            Content.styled(
                f"{self._symbols.arrow} {lever_text(lever)}",
                "$text-success" if lever.gpu else "$text-warning" if number == 0 else "$quiet",
            )
            for number, lever in enumerate(levers)
        ]
        if not levers and (words := latencies(row, plan)):
            lines.append(Content.styled(shorten_clauses(words, self._room, self._symbols.ellipsis), "$quiet"))
        if row.offer is not None:
            lines.append(self._offer(row.offer))
        reason = self.query_one("#reason", Static)
        reason.set_class(bool(levers), "-levers")
        reason.update(Content("\n").join(lines), layout=bool(levers))

    def _offer(self, offer: OfferAnswer) -> Content:
        instances = f"{offer.instances} × " if offer.instances > 1 else ""
        text = f"{usd_text(offer.usd_per_h)} $/h ({offer.as_of}) · {instances}{offer.provider} {offer.instance} · {offer.market} · {region_text(offer.region)}"
        return Content.styled(shorten_clauses(text, self._room, self._symbols.ellipsis), "$quiet")

    @property
    def _room(self) -> int:
        return max(20, self.size.width - 2)


def _in_short(chip: str) -> str:
    """A chip of several values by its first one and the number of the others."""
    first, *others = chip.split(", ")
    return f"{first} +{len(others)}" if others else first
