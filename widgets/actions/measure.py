"""Actions on this machine: benchmark it, watch it, judge it."""

from __future__ import annotations

from widgets.actions import conditions as need
from widgets.actions.action import Actions, Work, open_screen
from widgets.base_app import BaseApp

ACTIONS = Actions()


@ACTIONS.key("benchmark", "b", "benchmark", need.open_panes, need.no_benchmark, rank=6)
async def run_benchmark(app: BaseApp, suite: str | None = None) -> None:  # None: the usual one
    """Measure this machine; results enter the plan as they arrive."""
    if app.single:
        app.show_pane("benchmark")
    if app.benchmark is not None:
        await app.benchmark.measure(app.plan, suite=suite, model=app.form.workload.get("model"))


@ACTIONS.key("suite", "B", "suite", need.open_panes, need.no_benchmark)
def choose_suite(app: BaseApp) -> None:
    """Choose what to measure and how long it may take: quick, standard, or the study."""
    from widgets.background.benchmark import suites
    from widgets.screens.picker import PickerScreen

    def chosen(name: str | None) -> None:
        if name is not None and not app.benchmark_runs:
            app.run_worker(run_benchmark(app, name), group="act-benchmark", exit_on_error=False)
            app.refresh_keys()

    app.push_screen(PickerScreen("Measure this machine", suites(app.form.workload.get("model"))), chosen)


@ACTIONS.key("stop", "x", "stop", need.a_benchmark, rank=1)
async def stop_benchmark(app: BaseApp) -> None:
    """Stop the running benchmark; what was measured is kept."""
    if app.benchmark is not None:
        await app.benchmark.stop()


@ACTIONS.key("basis", "m", "data sheets", need.a_plan, label_now=lambda app: "measured" if app.basis == "spec" else None, rank=9)
def switch_basis(app: BaseApp) -> None:
    """Switch between measurements and vendor figures alone as the basis of the plan."""
    app.basis = "spec" if app.basis == "measured" else "measured"
    app.ask_for_plan(app.form.workload)


@ACTIONS.key("rightsize", "R", "right-size", need.readings)
def rightsize(app: BaseApp) -> Work | None:
    """Judge what the GPUs were seen to do: what limits them, and what each change saves a month."""
    return open_screen("rightsize", app)


@ACTIONS.key("running", "V", "roofline", need.a_watched_gpu)
def running(app: BaseApp) -> Work | None:
    """The roofline of the watched GPUs, with what runs on them as a point that moves."""
    return open_screen("running", app)


@ACTIONS.key("pause", "p", "pause", need.telemetry, label_now=lambda app: "resume" if app.telemetry.paused else None)
def pause(app: BaseApp) -> None:
    """Pause or resume watching this machine."""
    app.telemetry.toggle()
    if app.panes is not None:
        app.panes.machine.set_paused(app.telemetry.paused)


@ACTIONS.key("processes", "P", "processes", need.a_watched_gpu)
def list_processes(app: BaseApp) -> None:
    """List who uses each GPU, by memory; again: by GPU, by user, by process number, then no longer."""
    if app.panes is None:
        return
    machine = app.panes.machine
    if app.single and app.active_pane != "machine":
        app.show_pane("machine")
        if machine.lists_processes:
            return
    machine.turn_processes()


@ACTIONS.key("longer", "left_square_bracket", "longer", need.open_panes, need.telemetry, key_text="[")
def longer(app: BaseApp) -> None:
    """Let the histories of this machine reach further back: a cell is 1 s, 5 s, 30 s, 2 min, 10 min."""
    app.content.machine.stretch(1)


@ACTIONS.key("shorter", "right_square_bracket", "shorter", need.open_panes, need.telemetry, key_text="]")
def shorter(app: BaseApp) -> None:
    """Let the histories of this machine show less time, in more detail."""
    app.content.machine.stretch(-1)
