"""Actions on this machine: benchmark it, watch it, judge it."""

from __future__ import annotations

from widgets.actions import conditions as need
from widgets.actions.action import Action, opens
from widgets.base_app import BaseApp


async def run_benchmark(app: BaseApp, suite: str | None = None) -> None:
    """Measure this machine with a suite (None: the usual one), and the products of the model in the form."""
    if app.single:
        app.show_pane("benchmark")
    if app.benchmark is not None:
        await app.benchmark.measure(app.plan, suite=suite, model=app.form.workload.get("model"))


def choose_suite(app: BaseApp) -> None:
    """List the suites with the time each may take; the one chosen begins."""
    from widgets.background.benchmark import suites
    from widgets.screens.picker import PickerScreen

    def chosen(name: str | None) -> None:
        if name is not None and not app.benchmark_runs:
            app.run_worker(run_benchmark(app, name), group="act-benchmark", exit_on_error=False)
            app.refresh_keys()

    app.push_screen(PickerScreen("Measure this machine", suites(app.form.workload.get("model"))), chosen)


async def stop_benchmark(app: BaseApp) -> None:
    """Stop the benchmark."""
    if app.benchmark is not None:
        await app.benchmark.stop()


def switch_basis(app: BaseApp) -> None:
    """Plan again on the other basis."""
    app.basis = "spec" if app.basis == "measured" else "measured"
    app.ask_for_plan(app.form.workload)


def pause(app: BaseApp) -> None:
    """Pause the telemetry, or resume it."""
    app.telemetry.toggle()
    if app.panes is not None:
        app.panes.machine.set_paused(app.telemetry.paused)


def list_processes(app: BaseApp) -> None:
    """List who uses the GPUs, in another order, or no longer; where one pane is shown at a time that one comes first."""
    if app.panes is None:
        return
    machine = app.panes.machine
    if app.single and app.active_pane != "machine":
        app.show_pane("machine")
        if machine.lists_processes:
            return
    machine.turn_processes()


ACTIONS = (
    Action(
        id="benchmark",
        keys="b",
        label="benchmark",
        description="Measure this machine; results enter the plan as they arrive.",
        run=run_benchmark,
        needs=(need.open_panes, need.no_benchmark),
        rank=6,
    ),
    Action(
        id="suite",
        keys="B",
        label="suite",
        description="Choose what to measure and how long it may take: quick, standard, or the study.",
        run=choose_suite,
        needs=(need.open_panes, need.no_benchmark),
    ),
    Action(
        id="stop",
        keys="x",
        label="stop",
        description="Stop the running benchmark; what was measured is kept.",
        run=stop_benchmark,
        needs=(need.a_benchmark,),
        rank=1,
    ),
    Action(
        id="basis",
        keys="m",
        label="data sheets",
        label_now=lambda app: "measured" if app.basis == "spec" else None,
        description="Switch between measurements and vendor figures alone as the basis of the plan.",
        run=switch_basis,
        needs=(need.a_plan,),
        rank=9,
    ),
    Action(
        id="rightsize",
        keys="R",
        label="right-size",
        description="Judge what the GPUs were seen to do: what limits them, and what each change saves a month.",
        run=opens("rightsize"),
        needs=(need.readings,),
    ),
    Action(
        id="running",
        keys="V",
        label="roofline",
        description="The roofline of the watched GPUs, with what runs on them as a point that moves.",
        run=opens("running"),
        needs=(need.a_watched_gpu,),
    ),
    Action(
        id="pause",
        keys="p",
        label="pause",
        label_now=lambda app: "resume" if app.telemetry.paused else None,
        description="Pause or resume watching this machine.",
        run=pause,
        needs=(need.telemetry,),
    ),
    Action(
        id="processes",
        keys="P",
        label="processes",
        description="List who uses each GPU, by memory; again: by GPU, by user, by process number, then no longer.",
        run=list_processes,
        needs=(need.a_watched_gpu,),
    ),
    Action(
        id="longer",
        keys="left_square_bracket",
        key_text="[",
        label="longer",
        description="Let the histories of this machine reach further back: a cell is 1 s, 5 s, 30 s, 2 min, 10 min.",
        run=lambda app: app.content.machine.stretch(1),
        needs=(need.open_panes, need.telemetry),
    ),
    Action(
        id="shorter",
        keys="right_square_bracket",
        key_text="]",
        label="shorter",
        description="Let the histories of this machine show less time, in more detail.",
        run=lambda app: app.content.machine.stretch(-1),
        needs=(need.open_panes, need.telemetry),
    ),
)
