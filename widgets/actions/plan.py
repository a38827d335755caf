"""Actions on the plan: look into its rows, arrange them, take them elsewhere."""

from __future__ import annotations

from textual.widgets import Input

from widgets.actions import conditions as need
from widgets.actions import export
from widgets.actions.action import Actions, Work, open_screen
from widgets.base_app import BaseApp

ACTIONS = Actions()
A_ROW = (need.a_plan, need.a_row)


@ACTIONS.key("why", "enter", "why", *A_ROW, rank=2)
def why(app: BaseApp) -> Work | None:
    """Work the highlighted row out, line by line."""
    return open_screen("row.why", app)


@ACTIONS.key("memory", "M", "memory", *A_ROW, need.known_memory, rank=7)
def memory(app: BaseApp) -> Work | None:
    """Itemise the memory of the highlighted row: every byte with its formula and source."""
    return open_screen("row.memory", app)


@ACTIONS.key("change", "a", "what if", *A_ROW, rank=3)
def change(app: BaseApp) -> Work | None:
    """What would make the row fit, or change the answer: a digit tries one at once, with the difference; u takes it back."""
    return open_screen("row.levers", app)


@ACTIONS.key("own", "O", "rent or buy", *A_ROW)
def rent_or_buy(app: BaseApp) -> Work | None:
    """Every way to pay for the row, by the hour, committed, bought or by the token, and from when on another is cheaper."""
    return open_screen("decisions.costs", app)


@ACTIONS.key("fit", "F", "what they run", *A_ROW)
def fit(app: BaseApp) -> Work | None:
    """What as many of the highlighted GPU can run: every model, with precision, context, users and speed."""
    return open_screen("decisions.fit", app)


@ACTIONS.key("guide", "D", "guide", need.open_panes, rank=5)
def guide(app: BaseApp) -> Work | None:
    """Five questions, then the steps to a decision: profile, bottleneck, right size, where, what to commit to."""
    return open_screen("decisions.guide", app)


@ACTIONS.key("portfolio", "L", "portfolio", need.open_panes)
def portfolio(app: BaseApp) -> Work | None:
    """Several workloads of a file on one stock: what runs where, what to own, commit to and rent."""
    return open_screen("decisions.portfolio", app)


@ACTIONS.key("study", "f", "study", rank=9)
def study(app: BaseApp) -> Work | None:
    """Compute per dollar over model or batch sizes: which GPU leads where, measured and predicted."""
    return open_screen("study", app)


@ACTIONS.key("time", "T", "time", *A_ROW, need.known_time, rank=7)
def time(app: BaseApp) -> Work | None:
    """Where the time of the highlighted row goes: phases, roofline, every operator."""
    return open_screen("row.time", app)


@ACTIONS.key("load", "Q", "load", *A_ROW, need.a_latency)
def load(app: BaseApp) -> Work | None:
    """Latency of the row against the load: where it misses a target, and where requests come faster than it answers."""
    return open_screen("decisions.load", app)


@ACTIONS.key("filter", "slash", "filter", need.open_panes, key_text="/", rank=4)
def open_filter(app: BaseApp) -> None:
    """Narrow the search: l4 h100 aws spot; gpu: provider: kind: region: country: market: network: with commas; $/h<5, sure>90; fits, here, own; !word leaves out."""
    app.show_pane("ranking", focus=False)
    words = app.main.query_one("#filter", Input)
    words.display = True
    app.main.set_focus(words)  # at once: what is typed next belongs to it


@ACTIONS.key("sort", "s", "sort", need.a_plan, rank=8)
def sort(app: BaseApp) -> None:
    """Sort by the next column."""
    app.table.sort_next()


@ACTIONS.key("reverse", "S", "reverse", need.a_plan)
def reverse(app: BaseApp) -> None:
    """Reverse the order of the sorted column."""
    app.table.reverse()


def _fewer_columns(app: BaseApp) -> str | None:
    return "fewer columns" if app.panes is not None and app.table.wide else None


@ACTIONS.key("wide", "W", "columns", need.a_plan, label_now=_fewer_columns)
def wide(app: BaseApp) -> None:
    """Draw every column of the ranking, to be shifted with h and l; again: those there is room for."""
    app.table.toggle_wide()


@ACTIONS.key("compare", "c", "compare", *A_ROW, rank=8)
def compare(app: BaseApp) -> Work | None:
    """Set the rows marked with space side by side; without two of them, the highlighted row beside the first."""
    return open_screen("row.compare", app)


ACTIONS.key("export", "e", "export", need.a_plan, rank=9)(export.export)


@ACTIONS.key("refresh", "r", "refresh", need.a_plan, need.no_new_results)
async def read_again(app: BaseApp) -> None:
    """Read prices, measurements, presets and this machine again, and plan on them."""
    from widgets.start import read_environment

    await app.session_thread.reopen()
    if not app.form.faults:
        app.ask_for_plan(app.form.workload)
    await read_environment(app)
    app.notify("Reloaded prices, measurements, presets and this machine.", timeout=3)


ACTIONS.key("copy", "y", "copy row", *A_ROW)(export.copy_row)
ACTIONS.key("copy-command", "Y", "copy command", need.a_plan)(export.copy_command)
