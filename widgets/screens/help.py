"""The help screen: every key from the registry, what the pane shows, and what the signs mean."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from widgets.actions.action import ActionState
from widgets.drawing.formatting import BASIS_WORDS, VERDICT_WORDS
from widgets.drawing.symbols import Symbols
from widgets.screens.overlay import ScrolledOverlay

PANE_TEXTS = {
    "workload": "The job without hardware. Where it reads auto, that is chosen for you (the dim value); the form scrolls to what fewer people set. The bottom line says what a field is. Numbers take 4k, 1.5B, 15T; lengths take "
    "mean/p95. Every keystroke makes a new plan; a field that cannot be read says why and the last plan stays.",
    "ranking": "Every GPU, count and layout that could run the job: solutions first, ranked by the objective; below them what misses a "
    "target (~), does not fit (✗) or is not supported (–), with the smallest change that would help. f shows compute per dollar over model sizes. W draws every column, r reads all there is again; enter works a row out, "
    "M itemises its memory, T its time: phases by class of operator, the roofline with the operators on it, and every one of them.\n"
    "×: how many GPUs. layout: tp, pp, cp, ep, dp are tensor, pipeline, context, expert and data parallel; 3P:2D: three replicas read prompts, "
    "two decode. memory: of the fullest GPU, of what programs can take.\n"
    "where: whose price it is; the line below the table has the instance, the market and the date.\n"
    "limit: what most of the time waits for: compute, bandwidth (of memory), attention, link (between GPUs), latency (of kernels), host.",
    "memory": "The fullest GPU at the moment of its peak. The dotted line is what may be used: an engine that serves takes a part of the GPU (memory_fraction, mostly 90 %), and the workload keeps some of that free (targets.headroom, 10 % unless it says another). Overhead is what "
    "PyTorch's own peak does not count: context, libraries, allocator slack. enter (or M anywhere) itemises it: every byte with its formula, "
    "your numbers put in, and its source.",
    "machine": "What this machine does now. SM, tensor and bandwidth counters need Hopper or newer; older GPUs give shares of time only, "
    "which say nothing about how much of the GPU was used. — is a sensor that is not there. R judges what was seen and what to change; a badge "
    "(DEMO, REPLAY) says that it is not this machine. P lists who uses each GPU; z gives every figure a history. ├─a─┤ below a history is a "
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
    ("±14%", "the range that should hold the truth nine times in ten"),
    ("×÷2.4", "the same as a factor: from the figure divided by it to the figure times it"),
)
KEY = 10
"""Cells of the keys at the left."""
LEAST_WIDTH = 40


class HelpScreen(ScrolledOverlay):
    """Help for one pane, with all keys."""

    SCROLLED = "#help"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,f1", "dismiss", "back", show=False)]

    def __init__(self, pane: str, actions: Callable[[], Mapping[str, Sequence[ActionState]]], symbols: Symbols) -> None:
        """`actions`: every action as it stands now, by group."""
        super().__init__()
        self._pane, self._actions, self._symbols = pane, actions, symbols

    def compose(self) -> ComposeResult:
        """One scrolling text."""
        with VerticalScroll(id="help", classes="box") as box:
            box.border_title = Content("Help")
            box.border_subtitle = Content("j k scroll · esc back")
            yield Static(Content("\n").join(self._text(106)))

    def on_resize(self, _event: events.Resize) -> None:
        """Fold for the new width."""
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        if self.is_open:
            width = self.query_one("#help").scrollable_content_region.width
            self.query_one(Static).update(Content("\n").join(self._text(max(LEAST_WIDTH, width))))

    def _text(self, width: int) -> list[Content]:
        lines = [Content.styled(self._pane.capitalize(), "bold $accent")]
        lines += [Content(line) for text in PANE_TEXTS[self._pane].split("\n") for line in textwrap.wrap(text, width)]
        lines += [Content(""), Content.styled("Signs", "bold $accent")]
        signs = [(self._symbols.basis[basis], words) for basis, words in BASIS_WORDS.items() if basis in self._symbols.basis]
        signs += [(sign, VERDICT_WORDS[verdict]) for verdict, sign in self._symbols.verdict.items()]
        signs += [(self._symbols.marked, "marked for c"), *RANGES]
        lines += [line for sign, words in signs for line in _entry(sign, words, width, "", "$quiet")]
        for group, states in self._actions().items():
            lines += [Content(""), Content.styled(group, "bold $accent")]
            for state in states:
                ready = state.reason is None
                styles = ("bold $accent", "") if ready else ("$quiet", "$quiet")
                lines += _entry(state.keys, state.action.description, width, *styles)
                lines += [] if state.reason is None else _entry("", state.reason, width, "", "italic $text-warning")
        return [*lines, Content("")]


def _entry(key: str, text: str, width: int, key_style: str, style: str) -> list[Content]:
    """A key or sign, and what it does or means folded beside it."""
    return [
        Content.assemble((f"  {'' if number else key:<{KEY - 2}}", key_style), (line, style))
        for number, line in enumerate(textwrap.wrap(text, width - KEY) or [""])
    ]
