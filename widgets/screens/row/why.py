"""One row worked out line by line: bytes, seconds and dollars, each with its range and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from textual.binding import Binding, BindingType
from textual.content import Content

from planner.engine.answers.figure import Figure
from planner.engine.answers.memory import MEMORY_COMPONENTS
from planner.engine.answers.plan import Lever, Plan, PlanRow
from planner.engine.answers.time import class_words
from planner.present.cells import BASIS_WORDS, NumberText, basis_legend, ends_text, figure_text, spread_text
from planner.present.choice.sentence import count_and_device, replicas_words, sure_words
from planner.present.lines.folding import folded
from planner.present.memory import has_replicas, left_text
from planner.present.names import COMPONENT_NAMES, VERDICT_WORDS, region_text
from planner.present.plan import percentile_of, rate_text, throughput, throughput_label
from planner.present.prices import owned_words
from planner.present.row_figures import LATENCIES, PERCENTILES, row_figures
from planner.units import HOURS_PER_MONTH, UNKNOWN, bytes_text, count_text, counted, duration_text, percent_text, usd_text
from widgets.background import questions
from widgets.base_app import BaseApp
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import bar_text, component_style, styled_lines
from widgets.panes.why import STYLES, rank_text
from widgets.screens.network import between_nodes
from widgets.screens.overlay import TextOverlay
from widgets.screens.row.memory import lever_lines

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.hardware.catalogue.gpus import Gpu
    from planner.present.money.owning import Owned
    from planner.session import Session
    from planner.workload.tasks import Workload

LABEL = 22
VALUE = 12
SPREAD = 9
MARGIN = 2 + LABEL + VALUE + 3
"""Cells left of what is said of a value."""
LATENCY, PERCENTILE = 14, 9
"""Cells of a latency's name, and of each of its figures."""
ROOMY = 86
"""Cells from which there is room for the range beside them."""
SOURCE = 11
BAR = 32


async def open_screen(app: BaseApp) -> None:
    """Work the highlighted row out."""
    row = app.table.highlighted
    if row is None or app.plan is None:
        return
    screen = WhyScreen(row, app.plan, app.symbols)
    await app.push_screen(screen)
    screen.show_part(*await app.ask_of_plan(lambda session, workload: asked(session, workload, row, app.basis)))
    if row.rank is None:
        screen.show_levers(await app.search(questions.levers, row))


def asked(session: Session, workload: Workload, row: PlanRow, basis: BasisChoice) -> tuple[Gpu | None, Owned | None]:
    """(the GPU of a row, what the row costs on GPUs that are bought)."""
    from planner.present.money.owning import owned

    return session.part_named(row.gpu), owned(session.costs(workload, row, basis=basis), row)


class WhyScreen(TextOverlay):
    """Detail of one row."""

    WIDTH = 112
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "dismiss", "back", show=False),
        Binding("M", "items('memory')", "memory", show=False),
        Binding("T", "items('time')", "time", show=False),
    ]

    def __init__(self, row: PlanRow, plan: Plan, symbols: Symbols) -> None:
        parts = (
            "M memory" if row.answer.memory_bytes else "",
            "T time" if row.answer.seconds_by_class else "",
            "j k scroll",
            "esc back",
        )
        super().__init__(f"Why · {count_and_device(row)}", " · ".join(part for part in parts if part))
        self._row, self._plan, self._symbols = row, plan, symbols
        self._levers: Sequence[Lever] = ()
        self._owned: Owned | None = None
        self._network = ""

    def show_levers(self, levers: Sequence[Lever]) -> None:
        """Show the changes that would make the row a solution, below its verdict."""
        self._levers = levers
        self.draw()

    def show_part(self, gpu: Gpu | None, own: Owned | None) -> None:
        """Show what depends on the data of its GPU: the network between nodes, and the cost of the row on GPUs that are bought."""
        self._owned = own
        self._network = between_nodes(self._row, gpu, str(self._plan.task.get("task", "")))
        self.draw()

    def lines(self, width: int) -> list[Content]:
        """Every part of the detail."""
        lines = explain(self._row, self._plan, PageStyle(self._symbols, width), self._owned, self._network)
        if self._levers:
            levers = [_heading("What would change it"), *lever_lines(self._levers, self._symbols, width), Content("")]
            place = next((number for number, line in enumerate(lines) if not line.plain), len(lines) - 1) + 1
            lines[place:place] = levers
        return lines

    def action_items(self, action: str) -> None:
        """Itemise the memory, or the time, instead."""
        self.dismiss()
        self.app.call_later(self.app.run_action, f"act('{action}')")


class PageStyle(msgspec.Struct, frozen=True):
    """Style and width of the lines."""

    symbols: Symbols
    width: int = 106

    def line(self, label: str, value: str, aside: str = "") -> Iterator[Content]:
        """A label, its value, and what there is to say of it, folded beside them."""
        texts = folded(aside, max(20, self.width - MARGIN))
        yield Content.assemble((f"  {label:<{LABEL}}", "$quiet"), f"{value:>{VALUE}}", (f"   {texts[0]}".rstrip(), "$quiet"))
        yield from (Content.styled(f"{'':{MARGIN}}{line}", "$quiet") for line in texts[1:])

    def bar(self, share: float, sign: str) -> str:
        """A share as a bar, as long as there is room for."""
        return bar_text(share, max(8, min(BAR, self.width - MARGIN - 6)), sign, " ").rstrip()

    def figure(self, label: str, figure: Figure | None, text: NumberText) -> Iterator[Content]:
        """A figure with its range and the sign of what it rests on."""
        if figure is None:
            return
        reach = ends_text(figure, text) if figure.low != figure.high else "exact"
        yield Content.assemble(
            (f"  {label:<{LABEL}}", "$quiet"),
            f"{text(figure.value):>{VALUE}}",
            (f" {spread_text(figure):>{SPREAD}} ", "$quiet"),
            (f"{self.symbols.basis[figure.basis]} ", "$accent" if figure.basis == "measured" else "$quiet"),
            (f" {reach}", "$quiet"),
        )

    def folded(self, label: str, text: str, margin: int = SOURCE) -> Iterator[Content]:
        """A label and a text of several lines, `margin` cells from the left."""
        for number, line in enumerate(folded(text, max(20, self.width - margin))):
            yield Content.assemble((f"  {'' if number else f'{label} ':<{margin - 2}}", "$quiet"), line)


def explain(row: PlanRow, plan: Plan, page: PageStyle, owned: Owned | None = None, network: str = "") -> list[Content]:
    """Every line of the detail; `network`: what is between the nodes, in words."""

    def verdict(*_: object) -> Iterator[Content]:
        yield from _verdict(row, plan, page)
        if network:
            yield from (Content.styled(line, "$quiet") for line in folded(network, page.width))

    def bought(*_: object) -> Iterator[Content]:
        return _bought(owned, page) if owned is not None else iter(())

    parts = (verdict, memory_lines, _time, _speed, _money, bought, _measured, _assumed, _sources)
    lines: list[Content] = []
    for part in parts:
        found = list(part(row, plan, page))
        if found:
            lines += [*found, Content("")]
    return lines


def _heading(text: str, aside: str = "") -> Content:
    return Content.assemble((text, "bold $accent"), ("   " + aside if aside else "", "$quiet"))


def _verdict(row: PlanRow, plan: Plan, page: PageStyle) -> Iterator[Content]:
    """Place, reason, certainty, and the number of replicas and nodes."""
    place = rank_text(row, plan) if row.rank is not None else VERDICT_WORDS[row.verdict]
    here = " · this machine" if row.here else ""
    yield Content.assemble((f"{page.symbols.verdict[row.verdict]} {place}{here}", f"bold {STYLES[row.verdict]}"))
    yield Content(row.why)
    for words in (replicas_words(row, plan.task), sure_words(row)):
        yield from (Content.styled(line, "$quiet") for line in folded(words, page.width) if line)
    if row.answer.reason and row.answer.reason not in row.why:
        yield Content(row.answer.reason)
    layout = row.answer.layout
    if layout is not None:
        each = counted(layout.gpus_per_node, "GPU")
        nodes = f"{layout.nodes:,} nodes of {each}" if layout.nodes > 1 else "one node"
        extra = [
            f"micro batch {layout.micro_batch}" if layout.micro_batch else "",
            f"{counted(layout.batch, 'sequence')} at once a replica" if layout.batch else "",
        ]
        yield Content.styled(" · ".join(part for part in (f"layout {layout.text}", nodes, *extra) if part), "$quiet")


def memory_lines(row: PlanRow, _plan: Plan, page: PageStyle) -> Iterator[Content]:
    """Each component with its share of the GPU, what is needed and usable, and what still fits."""
    memory = row.answer.memory_bytes
    if memory is None:
        return
    yield _heading("Memory", "of the fullest GPU at its peak; M itemises it")
    for name in MEMORY_COMPONENTS:
        size = float(getattr(memory, name))
        if size > 0:
            share = size / memory.capacity if memory.capacity else 0.0
            yield Content.assemble(
                (f"  {COMPONENT_NAMES[name]:<{LABEL}}", "$quiet"),
                f"{bytes_text(size):>{VALUE}}",
                f"{percent_text(share):>7}  ",
                (page.bar(share, page.symbols.patterns[name]), component_style(name)),
            )
    yield from page.figure("needed", memory.total, bytes_text)
    yield from page.line("on the GPU", bytes_text(memory.capacity))
    part = f"{percent_text(memory.usable_share)} of it; " if memory.usable_share < 1 else ""
    yield from page.line("usable", bytes_text(memory.usable), f"{part}{left_text(memory)}")
    if row.answer.max_concurrency is not None:
        where = "over all replicas" if has_replicas(row) else "in the KV cache"
        yield from page.line("at once", f"{row.answer.max_concurrency:,}", f"sequences fit {where}")
    if row.answer.max_context is not None:
        yield from page.line("longest context", count_text(row.answer.max_context), "tokens fit")


def _time(row: PlanRow, _plan: Plan, page: PageStyle) -> Iterator[Content]:
    """Seconds of each class of operator; of a service those of one request, and what the mean request takes beyond them."""
    seconds = {name: value for name, value in row.answer.seconds_by_class.items() if value > 0}
    if not seconds:
        return
    whole = sum(seconds.values())
    limit = f", bound by {row.answer.bottleneck}" if row.answer.bottleneck else ""
    layout, request = row.answer.layout, row.answer.request_s
    together = layout.batch or 1 if layout is not None else 1
    one = "one request" if request is not None else "one step" if row.answer.step_s is not None else ""
    what = f"{one} among {together:,}: " if request is not None and together > 1 else f"{one}: " if one else ""
    yield _heading("Time", f"{what}{duration_text(whole)}{limit}; T itemises it")
    for name, value in sorted(seconds.items(), key=lambda item: -item[1]):
        yield Content.assemble(
            (f"  {class_words(name, seconds, row.answer.bottleneck):<{LABEL}}", "$quiet"),
            f"{duration_text(value):>{VALUE}}",
            f"{percent_text(value / whole):>7}  ",
            (page.bar(value / whole, page.symbols.filled), "$primary"),
        )
    if request is not None and request.mean.value > whole:
        waiting, mean = request.mean.value - whole, duration_text(request.mean.value)
        yield from page.line("others and waiting", duration_text(waiting), f"then the mean request takes {mean}")


def _speed(row: PlanRow, plan: Plan, page: PageStyle) -> Iterator[Content]:
    known = [one for one in row_figures(plan.task) if one.group in {"speed", "latency"}]
    figures = [figure for one in known if (figure := one.figure(row)) is not None]
    if figures:
        legend = basis_legend(figures)
        beside = len(legend) + 8 <= page.width
        yield _heading("Speed", legend if beside else "")
        yield from () if beside else styled_lines(legend, page.width, "$quiet")
        for one in known:
            if not one.percentile:
                yield from page.figure(one.label_with_unit, one.figure(row), one.text)
        yield from _latencies(row, page)


def _latencies(row: PlanRow, page: PageStyle) -> Iterator[Content]:
    """A line for each latency: its mean and percentiles, and the range of the 95th."""
    head = "".join(f"{percentile:>{PERCENTILE}}" for percentile in PERCENTILES) + ("   range of p95" if page.width >= ROOMY else "")
    for label, name in LATENCIES:
        found = {percentile: percentile_of(row, name, percentile) for percentile in PERCENTILES}
        ranged = found["p95"] or found["mean"]
        if ranged is None:
            continue
        if head:
            yield Content.styled(f"  {'':<{LATENCY}}{head}", "$quiet")
            head = ""
        values = "".join(f"{duration_text(figure.value) if figure else UNKNOWN:>{PERCENTILE}}" for figure in found.values())
        signs = f" {spread_text(ranged):>{SPREAD}} {page.symbols.basis[ranged.basis]}"
        reach = f"  {ends_text(ranged, duration_text)}" if page.width >= ROOMY else ""
        yield Content.assemble((f"  {label:<{LATENCY}}", "$quiet"), values, (signs + reach, "$quiet"))


def _money(row: PlanRow, plan: Plan, page: PageStyle) -> Iterator[Content]:
    offer = row.offer
    if row.verdict == "not-supported":
        return
    yield _heading("Money")
    if offer is None and row.owned is not None and row.usd_per_h is not None:
        whose = "to buy" if row.owned.bought else "your own"
        yield from page.line("an hour", f"{usd_text(row.usd_per_h.value)} $", f"{whose}: {owned_words(row.owned)}")
        if row.owned.words:
            yield from page.line("", "", row.owned.words)
    elif offer is None:
        yield from page.line("price", UNKNOWN, "no rental offer" + (": this machine is here already" if row.here else ""))
    else:
        instances = f"{offer.instances} × " if offer.instances > 1 else ""
        gpus = "GPU" if offer.gpus == 1 else "GPUs"
        yield from page.line(
            "offer",
            f"{usd_text(offer.usd_per_h)} $/h",
            f"{instances}{offer.provider} {offer.instance} ({offer.gpus} {gpus}), {region_text(offer.region)}, {offer.market}, {offer.as_of}",
        )
        if offer.note:
            yield from page.line("", "", offer.note)
        if row.other_offers:
            yield from page.line("other offers", f"{row.other_offers:,}", "of the same part, dearer")
    if row.usd_per_month is not None and row.usd_per_h is not None:
        yield from page.line(
            "a month", f"{usd_text(row.usd_per_month.value)} $", f"{usd_text(row.usd_per_h.value)} $/h × {HOURS_PER_MONTH:.0f} h"
        )
    for one in row_figures(plan.task):
        if one.group == "money" and one.label not in {"rent", "a month"}:
            yield from page.figure(one.label_with_unit, one.figure(row), one.text)


def _bought(owned: Owned, page: PageStyle) -> Iterator[Content]:
    yield _heading("To own instead", "O has other years and less use; gpu-planner report takes other terms")
    for sentence in owned.sentences():
        yield from page.folded("", sentence, 2)


def _measured(row: PlanRow, plan: Plan, page: PageStyle) -> Iterator[Content]:
    now = throughput(row.answer)
    before = throughput(row.spec_answer) if row.spec_answer else None
    if now is None or before is None:
        return
    yield _heading("What measuring changed")
    was = f"{figure_text(before, rate_text)} from public and vendor figures"
    change = f"{was} {page.symbols.arrow} {figure_text(now, rate_text)} {BASIS_WORDS[now.basis]}"
    yield from page.line(throughput_label(plan.task), rate_text(now.value), change)


def _assumed(row: PlanRow, _plan: Plan, page: PageStyle) -> Iterator[Content]:
    if not row.answer.assumed:
        return
    yield _heading("Assumed", "default values; set them to change them")
    for key, value in row.answer.assumed.items():
        yield from page.folded(key, _plain(value), LABEL + 3)


def _sources(row: PlanRow, plan: Plan, page: PageStyle) -> Iterator[Content]:
    yield _heading("Sources")
    if row.offer is not None:
        source, as_of = row.offer.source, row.offer.as_of
        yield from page.folded("price", source if as_of in source else f"{source}, {as_of}")
    for note in plan.notes:
        yield from page.folded("note", note)
    if row.answer.version or plan.version:
        yield from page.folded("program", f"gpu-planner {row.answer.version or plan.version}")


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
