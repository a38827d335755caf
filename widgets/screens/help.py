"""The help screen: every key from the registry, what the pane shows, and what the signs mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input

from planner.present.cells import BASIS_WORDS
from planner.present.names import VERDICT_WORDS
from widgets.actions.action import ActionState
from widgets.drawing.symbols import Symbols
from widgets.drawing.text import labelled, styled_lines
from widgets.drawing.text_field import Entry
from widgets.screens.overlay import TextOverlay

PANE_TEXTS = {
    "workload": "The job without hardware. Where it reads auto, that is chosen for you (the dim value); groups of fields fold, and say how many of them are set. The bottom line says what a field is. Numbers take 4k, 1.5B, 15T; lengths take "
    "mean/p95. Every keystroke makes a new plan; a field that cannot be read says why and the last plan stays.",
    "ranking": "A row is a GPU at its best count, layout and offer; → opens the others (+5). Solutions first, by the figure whose title "
    "stands out; below them what misses a target, does not fit or is not supported, with the smallest change that would help; a tries "
    "changes. / narrows the search over all candidates, and the line below says what it asks for.\n"
    "sure: the probability that the memory is enough and every target is met, by the ranges of the figures.\n"
    "×: how many GPUs. layout: tp, pp, cp, ep, dp are tensor, pipeline, context, expert and data parallel; 3P:2D: three replicas read prompts, "
    "two decode. memory: of the fullest GPU, of what programs can take.\n"
    "provider: whose price it is; the line below the table has the instance, the market and the date.\n"
    "limit: what most of the time waits for: compute, bandwidth (of memory), attention, link (between GPUs), latency (of kernels), host.",
    "memory": "The fullest GPU at the moment of its peak. The dotted line, as in 83 % usable, is how much of it may be used: an engine that serves takes a part of the GPU (memory_fraction, mostly 90 %), and the workload keeps some of that free (targets.headroom, 10 % unless it says another). Overhead is what "
    "PyTorch's own peak does not count: context, libraries, allocator slack. enter (or M anywhere) itemises it: every byte with its formula, "
    "your numbers put in, and its source.",
    "machine": "What this machine does now, from 0 to 100 % of what each part can do; [ and ] make a cell of the histories stand for more or "
    "less time, up to 10 minutes: averages of a day are kept. Blue says how much, yellow and red how near a limit: memory from 90 and 98 %, "
    "temperature from 80 and 88 °C, power at its limit; ▼ marks the time in which the clock was held back. SM, tensor and bandwidth "
    "counters need Hopper or newer; older GPUs give shares of time only, which say nothing about how much of the GPU was used. — is a "
    "sensor that is not there. R judges what was seen and what to change; a badge (DEMO, REPLAY) says that it is not this machine. P lists "
    "who uses each GPU, in another order each time; z gives every figure a gauge and a history. ├─a─┤ below a history is a "
    "benchmark point from its beginning to its end; while points are timed, readings come every 5 s.\n"
    "SM active: cycles of the multiprocessors with at least one warp, waiting ones too.\n"
    "occupancy: active warps of the most that could be; large products run best at 20 to 30 %.\n"
    "tensor: cycles in which the matrix pipes work; the best products reach 60 to 90 %.\n"
    "DRAM traffic: bytes moved, of the theoretical bandwidth; copies reach about 90 %.\n"
    "kernel resident: time with any kernel running, nvidia-smi's GPU-Util; one thread makes it 100 %.\n"
    "memory active: time in which memory was read or written; no bandwidth.\n"
    "held back by: why the clock is not at its highest, and how much of the last 5 s.\n"
    "memory errors: what ECC did not and did correct; ! is one to act on.",
    "benchmark": "b measures this machine in a process of its own: matrix products, memory bandwidth, launch latency, a training step. Each "
    "result enters the plan at once and stays for the next start.",
}


RANGES = (
    ("±14 %", "the range that should contain the true value nine times in ten"),
    ("-10 +29 %", "a range with unequal sides"),
    ("×÷2.4", "the same as a factor: from the figure divided by it to the figure times it; ÷1.7 ×2.8 where they differ"),
)
FIRST: Mapping[str, Sequence[str]] = {
    "workload": ("Workload", "Move"),
    "ranking": ("Plan", "Move"),
    "memory": ("Plan",),
    "machine": ("Measure",),
    "benchmark": ("Measure",),
}
"""Pane -> groups of keys that are listed first."""
KEY, GAP = 10, 2
"""Cells of the keys at the left at least, and of the blanks beside them."""


class HelpScreen(TextOverlay):
    """Help for one pane, with all keys."""

    WIDTH = 112
    AUTO_FOCUS = "#text"
    WAITING = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "dismiss", "back", show=False),
        Binding("slash", "search", "search", show=False),
        Binding("escape", "back", "back", show=False, priority=True),
    ]

    def __init__(self, pane: str, actions: Callable[[], Mapping[str, Sequence[ActionState]]], symbols: Symbols) -> None:
        """`actions`: every action as it stands now, by group."""
        super().__init__("Help", "/ searches · j k scroll · esc back")
        self._words: list[str] = []
        self._pane, self._actions, self._symbols = pane, actions, symbols

    def above(self) -> Iterator[Entry]:
        """Searched text; out of sight until that begins."""
        entry = Entry(placeholder="words about a key", id="help-words")
        entry.display = False
        yield entry

    def action_search(self) -> None:
        """Show only keys that are about what is typed."""
        entry = self.query_one("#help-words", Entry)
        entry.display = True
        self.set_focus(entry)

    def action_back(self) -> None:
        """End the search, or else the help."""
        entry = self.query_one("#help-words", Entry)
        if not entry.display:
            self.dismiss()
            return
        entry.value, entry.display = "", False
        self.set_focus(self.scrolled)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._words = event.value.casefold().split()
        self.draw()

    def lines(self, width: int) -> Iterator[Content]:
        """The pane, the signs, and the keys by group."""
        yield from self._keys(width)
        if self._words:
            return
        yield from (Content(""), _heading(self._pane.capitalize()))
        for text in PANE_TEXTS[self._pane].split("\n"):
            yield from styled_lines(text, width)
        yield from (Content(""), _heading("Signs"))
        signs = [(self._symbols.basis[basis], words) for basis, words in BASIS_WORDS.items() if basis in self._symbols.basis]
        signs += [(sign, VERDICT_WORDS[verdict]) for verdict, sign in self._symbols.verdict.items()]
        for sign, words in (*signs, (self._symbols.marked, "marked for c"), *RANGES):
            yield from labelled(f"  {sign}", KEY, words, width, "$quiet", "")
        yield Content("")

    def _keys(self, width: int) -> Iterator[Content]:
        """The keys by group, those of the pane first; where words were typed, the ones that are about them."""
        groups = self._actions()
        first = FIRST.get(self._pane, ())
        cells = max([KEY, *(GAP + len(state.keys) + GAP for states in groups.values() for state in states)])
        found = False
        for group in sorted(groups, key=lambda name: first.index(name) if name in first else len(first)):
            states = [state for state in groups[group] if all(word in _about(state) for word in self._words)]
            if not states:
                continue
            yield from ((Content(""), _heading(group)) if found else (_heading(group),))
            found = True
            for state in states:
                style, key_style = ("", "bold $accent") if state.reason is None else ("$quiet", "$quiet")
                yield from labelled(f"  {state.keys}", cells, state.action.description, width, style, key_style)
                if state.reason is not None:
                    yield from labelled("", cells, state.reason, width, "italic $text-warning")
        if not found:
            yield Content.styled("No matching key.", "$quiet")


def _about(state: ActionState) -> str:
    """The words of an action that are searched."""
    return f"{state.keys} {state.label} {state.action.description}".casefold()


def _heading(text: str) -> Content:
    return Content.styled(text, "bold $accent")
