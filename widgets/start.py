"""Start of the screen: content of the panes, the user's settings, presets, and this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planner.errors import UserError
from planner.paths import DEFAULT_PRESET
from widgets.actions.narrowing import take_filter, use_filter
from widgets.background.opened import facet_names, load_preset
from widgets.base_app import BaseApp
from widgets.state.saved_screen import modified_form, restore_last, save_modified

if TYPE_CHECKING:
    from planner.errors import Problem
    from planner.session import Session
    from planner.workload.presets import Preset
    from widgets.screens.picker import Item


FIRST_ANSWER_S = 1.0
"""Time reserved for the first answer, before this machine and the lists of the pickers are read."""
MOST_PROBLEMS = 3
"""Problems of one file that are shown at once."""
RESTORED = "The last session is restored; N starts afresh."
WITH_PANES_S = 0.1
"""Time to wait before the panes are first drawn, so that an answer that is nearly ready can be drawn with them."""


async def begin(app: BaseApp) -> None:
    """Open the first preset and plan it, then do the work that the first answer does not need."""
    with app.batch_update():  # laid out and drawn once
        await fill_panes(app)
        unusable = use_settings(app)
        restored = app.options.preset is None and await restore_last(app)
        if not restored:
            await open_preset(app, app.options.preset or DEFAULT_PRESET, fallback=DEFAULT_PRESET)
            await plan_given_model(app)
        if app.session_thread.process is not None:
            await first_answer(app, WITH_PANES_S)
    if app.plan_loop.answered.is_set():
        await wait_until_drawn(app)
    show_tour(app, unusable)
    if restored and not is_fresh(app):
        app.notify(RESTORED, timeout=8)
    await first_answer(app, FIRST_ANSWER_S)
    await wait_until_drawn(app)
    if app.options.telemetry:
        app.telemetry.start()
        app.content.machine.follow(lambda: app.telemetry.trouble, app.telemetry.list_processes)
    else:
        app.content.machine.say_off()
    await read_environment(app)


async def plan_given_model(app: BaseApp) -> None:
    """Plan the model given on the command line, if any."""
    if app.options.model is not None:
        from widgets.actions.workload import change_model

        await change_model(app, app.options.model)


def is_fresh(app: BaseApp) -> bool:
    """True if the screen shows the state of a first start."""
    return app.preset is not None and (app.preset.name, app.modified, app.filter_text) == (DEFAULT_PRESET, False, "")


async def start_afresh(app: BaseApp) -> None:
    """Show the state of a first start, the default preset without a filter; a changed form is saved as a session."""
    app.basis = "measured"
    await open_preset(app, DEFAULT_PRESET)
    take_filter(app, "")
    app.show_pane("ranking")


async def first_answer(app: BaseApp, within_s: float) -> None:
    """Wait for the first answer, if one was asked for."""
    if app.preset is not None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(app.plan_loop.answered.wait(), within_s)


async def wait_until_drawn(app: BaseApp) -> None:
    """Wait until the screen has been drawn: other work at the same time would delay it."""
    drawn = asyncio.Event()
    app.screen.call_after_refresh(drawn.set)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(drawn.wait(), FIRST_ANSWER_S)


def show_tour(app: BaseApp, unusable: Sequence[Problem]) -> None:
    """Explain the screen at a first start, then list the settings that cannot be used."""

    def notify(_: None = None) -> None:
        if unusable:
            app.notify(listed(unusable), title="Settings not used", severity="warning", timeout=8)

    if app.options.tour:
        from widgets.screens import tour

        if tour.wanted(app):
            tour.open_screen(app, notify)
            return
    notify()


def listed(problems: Sequence[Problem]) -> str:
    """First problems, a line for each, under the name of the file that all of them are in."""
    files = {problem.where for problem in problems}
    head, shown = ([*files], [problem._replace(where="") for problem in problems]) if len(files) == 1 else ([], problems)
    more = len(problems) - MOST_PROBLEMS
    tail = [f"and {more} more"] if more > 0 else []
    return "\n".join([*filter(None, head), *map(str, shown[:MOST_PROBLEMS]), *tail])


async def fill_panes(app: BaseApp) -> None:
    """Put the content into the panes, and make the benchmark ready to run."""
    from planner.present.choice.facets import FacetNames, Facets
    from widgets.background.benchmark import BenchmarkRunner
    from widgets.panes.content import Panes

    app.facets, app.facet_names = Facets(), FacetNames()
    app.benchmark = BenchmarkRunner(
        app.session_thread,
        app.post_message,
        python=app.options.python,
        state=app.options.state,
        suite=app.options.suite,
        polls=lambda: app.telemetry.polls,
    )
    panes = Panes(app.symbols)
    await panes.mount(app.main)
    app.panes = panes
    if app.main.focused is None:
        app.table.focus()


def use_settings(app: BaseApp) -> Sequence[Problem]:
    """Apply the user's config.toml; returns the problems of settings that cannot be used."""
    from widgets.state import config

    remappable = [action.id for group in app.ACTION_GROUPS.values() for action in group if action.scope != "textual"]
    found, problems = config.read(app.options.config, remappable)
    app.keymap = {**found.keys, **app.keymap}
    app.set_keymap(app.keymap)
    if found.theme and not app.options.theme and app.options.colour and "theme" not in app.choices:
        app.theme = found.theme
    app.refresh_keys()
    return problems.found


async def read_environment(app: BaseApp) -> None:
    """Read the names of presets, models and GPUs, this machine, and its stored measurements."""
    from widgets.background.benchmark import stored_text
    from widgets.screens.overlay import Overlay

    app.form.offer(*await app.ask(_shelves))
    app.facet_names = await app.ask(facet_names)
    if isinstance(app.screen, Overlay):
        app.screen.renew()
    if app.filter_text:
        use_filter(app, app.filter_text)
    app.here = await app.ask(_this_machine)
    app.refresh_headline()
    app.content.benchmark.set_stored(await app.ask(stored_text))


async def open_preset(app: BaseApp, name: str, fallback: str | None = None) -> None:
    """Load a preset into the form and plan it; if it is faulty, show its problems and keep the one before."""
    try:
        preset, workload = await app.ask(lambda session: load_preset(session, name))
    except UserError as wrong:
        app.notify(listed(wrong.problems), title="Preset not opened", severity="error", timeout=8)
        if fallback is not None and fallback != name:
            await open_preset(app, fallback)
        return
    save_modified(app, modified_form(app))
    app.preset, app.preset_fields = preset, workload
    app.plan_loop.forget()
    app.trial = None
    app.table.start_anew()
    await app.form.open(preset.name, workload)
    app.ask_for_plan(workload)
    if app.plan is None:
        app.refresh_headline()


async def save_preset(app: BaseApp, name: str) -> None:
    """Save the workload as a preset of the user's own, replacing an own one of that name; the form then shows the new preset."""
    workload, where = dict(app.form.workload), str(app.preset.path) if app.preset else ""

    def saved(session: Session) -> tuple[Preset, dict[str, Any]]:
        session.presets.save(name, session.workload(workload, where), overwrite=True)
        return load_preset(session, name)

    try:
        preset, stated = await app.ask(saved)
    except UserError as wrong:
        app.notify(listed(wrong.problems), title="Not saved", severity="error", timeout=8)
        return
    app.preset, app.preset_fields = preset, stated
    offered = await app.ask(_shelves)
    await app.form.open(preset.name, stated)
    app.form.offer(*offered)
    app.refresh_headline()
    app.notify(str(preset.path), title="Saved", timeout=5)


def _shelves(session: Session) -> tuple[list[Item], list[Item]]:
    """Every preset and model with its title; a preset that cannot be read is reported when it is opened."""
    from widgets.screens.picker import Item

    presets = []
    for name in session.presets.names():
        try:
            preset = session.presets.load(name)
        except UserError:
            presets.append(Item(name, detail="cannot be read"))
        else:
            own = " · yours" if preset.origin != "shipped" else ""
            presets.append(Item(name, detail=preset.workload.title + own))
    models = [Item(name, detail=head.title) for name, (head, _) in session.models.heads().items()]
    return presets, models


def _this_machine(session: Session) -> str:
    """GPUs of this machine, in words."""
    machine = session.machine
    names = sorted({local.name for local in machine.gpus})
    count = f"{len(machine.gpus)} × " if len(machine.gpus) > 1 else ""
    none = "the driver does not answer" if machine.nvml_state == "not answering" else "no GPU here"
    return f"{count}{', '.join(names)} here" if names else none
