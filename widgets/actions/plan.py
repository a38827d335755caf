"""Actions on the plan: look into its rows, arrange them, take them elsewhere."""

from __future__ import annotations

from textual.widgets import Input

from widgets.actions import conditions as need
from widgets.actions import export
from widgets.actions.action import Action, opens
from widgets.base_app import BaseApp


def open_filter(app: BaseApp) -> None:
    """Show the filter's line, with the cursor in it."""
    app.show_pane("ranking", focus=False)
    words = app.main.query_one("#filter", Input)
    words.display = True
    app.main.set_focus(words)  # at once: what is typed next belongs to it


async def read_again(app: BaseApp) -> None:
    """Read prices, measurements, presets and this machine again, and plan the workload on them; the form stays."""
    from widgets.opening import look_round

    await app.session_thread.reopen()
    if not app.form.has_faults:
        app.ask_for_plan(app.form.workload)
    await look_round(app)
    app.notify("Prices, measurements, presets and this machine were read again.", timeout=3)


ACTIONS = (
    Action(
        id="why",
        keys="enter",
        label="why",
        description="Work the highlighted row out, line by line.",
        run=opens("row.why"),
        needs=(need.a_plan, need.a_row),
        rank=2,
    ),
    Action(
        id="memory",
        keys="M",
        label="memory",
        description="Itemise the memory of the highlighted row: every byte with its formula and source.",
        run=opens("row.memory"),
        needs=(need.a_plan, need.a_row, need.known_memory),
        rank=7,
    ),
    Action(
        id="change",
        keys="a",
        label="what if",
        description="What would make the row fit, or change the answer: a digit tries one at once, with the difference; u takes it back.",
        run=opens("row.levers"),
        needs=(need.a_plan, need.a_row),
        rank=3,
    ),
    Action(
        id="own",
        keys="O",
        label="rent or buy",
        description="Every way to pay for the row, by the hour, committed, bought or by the token, and from when on another is cheaper.",
        run=opens("decisions.costs"),
        needs=(need.a_plan, need.a_row),
    ),
    Action(
        id="fit",
        keys="F",
        label="what they run",
        description="What as many of the highlighted GPU can run: every model, with precision, context, users and speed.",
        run=opens("decisions.fit"),
        needs=(need.a_plan, need.a_row),
    ),
    Action(
        id="guide",
        keys="D",
        label="guide",
        description="Five questions, then the steps to a decision: profile, bottleneck, right size, where, what to commit to.",
        run=opens("decisions.guide"),
        needs=(need.open_panes,),
    ),
    Action(
        id="portfolio",
        keys="L",
        label="portfolio",
        description="Several workloads of a file on one stock: what runs where, what to own, commit to and rent.",
        run=opens("decisions.portfolio"),
        needs=(need.open_panes,),
    ),
    Action(
        id="study",
        keys="f",
        label="study",
        description="Compute per dollar over model or batch sizes: which GPU leads where, measured and predicted.",
        run=opens("study"),
        rank=9,
    ),
    Action(
        id="time",
        keys="T",
        label="time",
        description="Where the time of the highlighted row goes: phases, roofline, every operator.",
        run=opens("row.time"),
        needs=(need.a_plan, need.a_row, need.known_time),
        rank=7,
    ),
    Action(
        id="load",
        keys="Q",
        label="load",
        description="Latency of the row against the load: where it misses a target, and where requests come faster than it answers.",
        run=opens("decisions.load"),
        needs=(need.a_plan, need.a_row, need.a_latency),
    ),
    Action(
        id="filter",
        keys="slash",
        key_text="/",
        label="filter",
        description="Narrow the search: l4 h100 aws spot; gpu: provider: kind: region: country: market: network: with commas; "
        "$/h<5, sure>90; fits, here, own; !word leaves out.",
        run=open_filter,
        needs=(need.open_panes,),
        rank=4,
    ),
    Action(
        id="sort",
        keys="s",
        label="sort",
        description="Sort by the next column.",
        run=lambda app: app.table.sort_next(),
        needs=(need.a_plan,),
        rank=8,
    ),
    Action(
        id="reverse",
        keys="S",
        label="reverse",
        description="Reverse the order of the sorted column.",
        run=lambda app: app.table.reverse(),
        needs=(need.a_plan,),
    ),
    Action(
        id="wide",
        keys="W",
        label="columns",
        label_now=lambda app: "fewer columns" if app.panes is not None and app.table.wide else None,
        description="Draw every column of the ranking, to be shifted with h and l; again: those there is room for.",
        run=lambda app: app.table.toggle_wide(),
        needs=(need.a_plan,),
    ),
    Action(
        id="compare",
        keys="c",
        label="compare",
        description="Set the rows marked with space side by side; without two of them, the highlighted row beside the first.",
        run=opens("row.compare"),
        needs=(need.a_plan, need.a_row),
        rank=8,
    ),
    Action(
        id="export",
        keys="e",
        label="export",
        description="Write the plan as JSON, CSV or Markdown, the decision as a report, or the screen as SVG.",
        run=export.export,
        needs=(need.a_plan,),
        rank=9,
    ),
    Action(
        id="refresh",
        keys="r",
        label="refresh",
        description="Read prices, measurements, presets and this machine again, and plan on them.",
        run=read_again,
        needs=(need.a_plan, need.no_new_results),
    ),
    Action(
        id="copy",
        keys="y",
        label="copy row",
        description="Copy the highlighted row as text.",
        run=export.copy_row,
        needs=(need.a_plan, need.a_row),
    ),
    Action(
        id="copy-command",
        keys="Y",
        label="copy command",
        description="Copy the command line that gives the same answer.",
        run=export.copy_command,
        needs=(need.a_plan,),
    ),
)
