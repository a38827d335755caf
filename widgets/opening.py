"""Opening presets and looking round: what the app asks the session once the screen is up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.errors import UserError
from planner.paths import DEFAULT_PRESET
from widgets import config
from widgets.background import benchmark
from widgets.panes.benchmark import BenchmarkView
from widgets.panes.machine.pane import MachineView
from widgets.panes.too_small import TooSmall
from widgets.screens.picker import Item

if TYPE_CHECKING:
    from planner.session import Session
    from planner.workload.presets import Preset
    from widgets.app import PlannerApp


async def begin(app: PlannerApp) -> None:
    """The first preset and its plan, then everything the first answer does not need."""
    await furnish(app)
    use_settings(app)
    await open_preset(app, app.options.preset, fallback=DEFAULT_PRESET)
    if app.options.telemetry:
        app.watching.start()
        app.main.query_one(MachineView).mind(lambda: app.watching.trouble, app.watching.list_processes)
    else:
        app.main.query_one(MachineView).say_off()
    await look_round(app)


async def look_round(app: PlannerApp) -> None:
    """What can be opened, what this machine is, and what was measured on it."""
    presets, models = await app.session_thread.ask(_shelves)
    app.form.offer(presets, models)
    app.here = await app.session_thread.ask(_this_machine)
    app.refresh_headline()
    app.main.query_one(BenchmarkView).set_stored(await benchmark.stored_text(app.session_thread))


async def read_again(app: PlannerApp) -> None:
    """Prices, measurements, presets and this machine as they are now, and the workload planned on them; the form stays."""
    await app.session_thread.reopen()
    if not app.form.has_faults:
        app.ask_for_plan(app.form.workload)
    await look_round(app)
    app.notify("Prices, measurements, presets and this machine were read again.", timeout=3)


def use_settings(app: PlannerApp) -> None:
    """Take over the user's config.toml; what cannot be used is said, and the rest holds."""
    found, problems = config.read(app.options.config)
    app.keymap = {**found.keys, **app.keymap}
    app.set_keymap(app.keymap)
    if found.theme and not app.options.theme and app.options.colour and "theme" not in app.choices:
        app.theme = found.theme
    for problem in problems.found[:3]:
        app.notify(str(problem), title="Setting not used", severity="warning", timeout=8)
    app.refresh_keys()


async def furnish(app: PlannerApp) -> None:
    """Put the content into the panes."""
    from widgets.background.benchmark import Measuring
    from widgets.panes.machine.pane import MachineView
    from widgets.panes.ranking.pane import MachineLine, MemoryStrip, MemoryView, RankingView
    from widgets.panes.workload.form import Form

    main, symbols = app.main, app.symbols
    app.measuring = Measuring(
        app.session_thread,
        app.post_message,
        python=app.options.python,
        state=app.options.state,
        suite=app.options.suite,
        polls=lambda: app.watching.polls,
    )
    with app.batch_update():
        await main.query_one("#ranking").mount(RankingView(symbols=symbols))
        await main.query_one("#workload").mount(Form(symbols=symbols))
        await main.query_one("#memory").mount(MemoryView(symbols=symbols))
        await main.query_one("#machine").mount(MachineView(symbols=symbols))
        await main.query_one("#benchmark").mount(BenchmarkView(symbols=symbols))
        await main.mount(MemoryStrip(symbols=symbols), MachineLine(), before="#key-line")
        await main.mount(TooSmall())
    if main.focused is None:
        app.table.focus()


async def open_preset(app: PlannerApp, name: str, fallback: str | None = None) -> None:
    """Load a preset into the form and plan it; what is wrong with it is said, and the one before stays."""
    try:
        preset, workload = await app.session_thread.ask(lambda session: _load(session, name))
    except UserError as wrong:
        for problem in wrong.problems[:3]:
            app.notify(str(problem), title="Preset not opened", severity="error", timeout=8)
        if fallback is not None and fallback != name:
            await open_preset(app, fallback)
        return
    app.preset, app.preset_fields = preset, workload
    app.plan_loop.forget()
    await app.form.open(preset.name, workload)
    app.ask_for_plan(workload)
    if app.plan is None:
        app.refresh_headline()


async def save_preset(app: PlannerApp, name: str) -> None:
    """Write the workload as the user's own preset; his own of that name is replaced, and the form goes on as the new one."""
    workload, where = dict(app.form.workload), str(app.preset.path) if app.preset else ""

    def question(session: Session) -> tuple[Preset, dict[str, Any]]:
        session.presets.save(name, session.workload(workload, where), overwrite=True)
        return _load(session, name)

    try:
        preset, stated = await app.session_thread.ask(question)
    except UserError as wrong:
        app.notify("\n".join(str(problem) for problem in wrong.problems[:3]), title="Not saved", severity="error", timeout=8)
        return
    app.preset, app.preset_fields = preset, stated
    presets, models = await app.session_thread.ask(_shelves)
    await app.form.open(preset.name, stated)
    app.form.offer(presets, models)
    app.refresh_headline()
    app.notify(str(preset.path), title="Saved", timeout=5)


def _load(session: Session, name: str) -> tuple[Preset, dict[str, Any]]:
    preset = session.presets.load(name)
    return preset, wire_form(preset)


def wire_form(preset: Preset) -> dict[str, Any]:
    """The stated keys of a preset's workload."""
    import msgspec

    stated: dict[str, Any] = _without_none(msgspec.to_builtins(preset.workload))
    return stated


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(entry) for key, entry in value.items() if entry is not None}
    return value


def _shelves(session: Session) -> tuple[list[Item], list[Item]]:
    """Every preset and model with its title; a preset that cannot be read is left to the one who opens it."""
    presets = []
    for name in session.presets.names():
        try:
            preset = session.presets.load(name)
        except UserError:
            presets.append(Item(name, detail="cannot be read"))
        else:
            own = " · yours" if preset.origin != "shipped" else ""
            presets.append(Item(name, detail=preset.workload.title + own))
    models = [Item(name, detail=session.models.find(name).title) for name in session.models.names()]
    return presets, models


def _this_machine(session: Session) -> str:
    """The GPUs of this machine, in words."""
    machine = session.machine
    names = sorted({local.name for local in machine.gpus})
    count = f"{len(machine.gpus)} × " if len(machine.gpus) > 1 else ""
    return f"{count}{', '.join(names)} here" if names else "no GPU here"
