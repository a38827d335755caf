"""The one registry of actions: bindings, key line, help screen and command palette are made from it.

An action's id is what `[keys]` of the user's config.toml remaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding

Scope = Literal["app", "table", "form"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something a key does."""

    id: str
    keys: str
    """Separated by commas, as Textual names them."""
    label: str
    """One or two words, for the key line."""
    description: str
    """One sentence, for help and palette."""
    group: str
    scope: Scope = "app"
    shown: str = ""
    """How the keys read; empty: as they are."""
    rank: int = 0
    """Order in the key line, smallest first; 0: not there."""
    does: str = ""
    """Textual action of a widget's own binding; empty: the app's `act`."""

    @property
    def key_text(self) -> str:
        """The keys as people write them."""
        return self.shown or self.keys.split(",")[0]

    def binding(self, keys: str | None = None) -> Binding:
        """This action as a Textual binding."""
        return Binding(
            keys or self.keys,
            self.does or f"app.act('{self.id}')",
            self.label,
            show=False,
            key_display=self.key_text,
            tooltip=self.description,
            id=self.id,
        )


PANES = ("workload", "ranking", "memory", "machine", "benchmark")

ACTIONS: tuple[Action, ...] = (
    Action(
        id="benchmark",
        keys="b",
        label="benchmark",
        description="Measure this machine; results enter the plan as they arrive.",
        group="Measure",
        rank=1,
    ),
    Action(
        id="suite",
        keys="B",
        label="suite",
        description="Choose what to measure and how long it may take: quick, standard, or the study.",
        group="Measure",
    ),
    Action(
        id="stop",
        keys="x",
        label="stop",
        description="Stop the running benchmark; what was measured is kept.",
        group="Measure",
        rank=2,
    ),
    Action(
        id="basis",
        keys="m",
        label="spec only",
        description="Switch between measurements and vendor figures alone as the basis of the plan.",
        group="Measure",
        rank=9,
    ),
    Action(
        id="rightsize",
        keys="R",
        label="right-size",
        description="Judge what the GPUs were seen to do: what limits them, and what each change saves a month.",
        group="Measure",
    ),
    Action(id="pause", keys="p", label="pause", description="Pause or resume watching this machine.", group="Measure"),
    Action(
        id="processes",
        keys="P",
        label="processes",
        description="List who uses each GPU, with memory, command and user, in the pane of this machine; again: no longer.",
        group="Measure",
    ),
    Action(
        id="why",
        keys="enter",
        label="why",
        description="Work the highlighted row out, line by line.",
        group="Plan",
        shown="enter",
        rank=3,
    ),
    Action(
        id="memory",
        keys="M",
        label="memory",
        description="Itemise the memory of the highlighted row: every byte with its formula and source.",
        group="Plan",
        rank=5,
    ),
    Action(
        id="study",
        keys="f",
        label="study",
        description="Compute per dollar over model or batch sizes: which GPU leads where, measured and predicted.",
        group="Plan",
        rank=9,
    ),
    Action(
        id="time",
        keys="T",
        label="time",
        description="Where the time of the highlighted row goes: phases, roofline, every operator.",
        group="Plan",
        rank=5,
    ),
    Action(
        id="filter",
        keys="slash",
        label="filter",
        description="Show only rows that contain every word; !word leaves out.",
        group="Plan",
        shown="/",
        rank=4,
    ),
    Action(id="sort", keys="s", label="sort", description="Sort by the next column.", group="Plan", rank=6),
    Action(id="reverse", keys="S", label="reverse", description="Reverse the order of the sorted column.", group="Plan"),
    Action(
        id="wide",
        keys="W",
        label="columns",
        description="Draw every column of the ranking, to be shifted with h and l; again: those there is room for.",
        group="Plan",
    ),
    Action(
        id="compare",
        keys="c",
        label="compare",
        description="Set the rows marked with space side by side; without two of them, the highlighted row beside the first.",
        group="Plan",
        rank=8,
    ),
    Action(
        id="export",
        keys="e",
        label="export",
        description="Write the plan as JSON, CSV or Markdown, the decision as a report, or the screen as SVG.",
        group="Plan",
        rank=7,
    ),
    Action(
        id="refresh",
        keys="r",
        label="refresh",
        description="Read prices, measurements, presets and this machine again, and plan on them.",
        group="Plan",
    ),
    Action(id="copy", keys="y", label="copy row", description="Copy the highlighted row as text.", group="Plan"),
    Action(
        id="copy-command",
        keys="Y",
        label="copy command",
        description="Copy the command line that gives the same answer.",
        group="Plan",
    ),
    Action(id="preset", keys="o", label="preset", description="Open another workload preset.", group="Workload", rank=8),
    Action(id="undo", keys="u", label="undo", description="Take back the last change of the workload.", group="Workload", rank=10),
    Action(id="save", keys="w", label="save preset", description="Save the workload as a preset of your own.", group="Workload"),
    Action(id="pane-workload", keys="1", label="workload", description="Go to the workload form.", group="Go to"),
    Action(id="pane-ranking", keys="2", label="ranking", description="Go to the ranking.", group="Go to"),
    Action(id="pane-memory", keys="3", label="memory", description="Go to the memory of the highlighted row.", group="Go to"),
    Action(id="pane-machine", keys="4", label="machine", description="Go to this machine.", group="Go to"),
    Action(id="pane-benchmark", keys="5", label="benchmark", description="Go to the benchmark.", group="Go to"),
    Action(
        id="zoom",
        keys="z,plus",
        label="zoom",
        description="Give the whole screen to one pane, or give it back.",
        group="Go to",
        shown="z",
    ),
    Action(
        id="back", keys="escape", label="back", description="Back out one level: filter, form, zoom.", group="Go to", shown="esc"
    ),
    Action(id="theme", keys="t", label="theme", description="Choose the colours.", group="Program"),
    Action(
        id="help",
        keys="question_mark,f1",
        label="help",
        description="Keys, signs and what the pane shows.",
        group="Program",
        shown="?",
        rank=11,
    ),
    Action(id="quit", keys="q", label="quit", description="Leave; asks only while a benchmark runs.", group="Program", rank=12),
    Action(
        id="table-mark",
        keys="space",
        label="mark",
        description="Mark the row for c, or no longer, and go to the next.",
        group="Plan",
        scope="table",
        does="mark",
    ),
    Action(
        id="table-down",
        keys="j,down",
        label="down",
        description="Next row.",
        group="Move",
        scope="table",
        does="move(1)",
        shown="j ↓",
    ),
    Action(
        id="table-up",
        keys="k,up",
        label="up",
        description="Previous row.",
        group="Move",
        scope="table",
        does="move(-1)",
        shown="k ↑",
    ),
    Action(
        id="table-first",
        keys="g,home",
        label="first",
        description="First row.",
        group="Move",
        scope="table",
        does="go(0)",
        shown="g",
    ),
    Action(
        id="table-last", keys="G,end", label="last", description="Last row.", group="Move", scope="table", does="go(-1)", shown="G"
    ),
    Action(
        id="table-left",
        keys="h,left",
        label="left",
        description="Shift the columns back, where W draws them all.",
        group="Move",
        scope="table",
        does="shift(-1)",
        shown="h ←",
    ),
    Action(
        id="table-right",
        keys="l,right",
        label="right",
        description="Shift to the next columns, where W draws them all.",
        group="Move",
        scope="table",
        does="shift(1)",
        shown="l →",
    ),
    Action(
        id="table-page-down",
        keys="ctrl+d,pagedown",
        label="page down",
        description="Half a page down.",
        group="Move",
        scope="table",
        does="page(1)",
        shown="^d",
    ),
    Action(
        id="table-page-up",
        keys="ctrl+u,pageup",
        label="page up",
        description="Half a page up.",
        group="Move",
        scope="table",
        does="page(-1)",
        shown="^u",
    ),
    Action(
        id="form-next",
        keys="down",
        label="next field",
        description="Next field of the form.",
        group="Move",
        scope="form",
        does="app.focus_next",
        shown="↓ tab",
    ),
    Action(
        id="form-previous",
        keys="up",
        label="previous field",
        description="Previous field of the form.",
        group="Move",
        scope="form",
        does="app.focus_previous",
        shown="↑ ⇧tab",
    ),
)

BY_ID: Mapping[str, Action] = {action.id: action for action in ACTIONS}


def bindings(scope: Scope) -> list[Binding]:
    """The bindings of one scope."""
    return [action.binding() for action in ACTIONS if action.scope == scope]


def key_line() -> list[Action]:
    """The actions of the key line, most wanted first."""
    return sorted((action for action in ACTIONS if action.rank), key=lambda action: action.rank)
