"""`gpu-planner fit`: the models that given hardware can run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
import msgspec

from planner.cli.completion import gpu_names
from planner.cli.exits import ExitCode
from planner.cli.options import Invocation, basis_option, json_option, own_option, pass_invocation, settings_option
from planner.cli.plan.options import name_sources, parse_settings
from planner.cli.terminal.streams import say, write_json
from planner.engine.answers.fit import Order
from planner.errors import Problem, UserError, nearest_names
from planner.workload.changes import with_settings
from planner.workload.hardware.owned import Own

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.engine.answers.fit import Fit
    from planner.session import Session

DEFAULT_ROWS = 25
"""Rows of a printed table; JSON has all rows unless `--top` is given."""
TASKS = ("serve", "generate", "prefill", "train", "finetune")
SPEED_HINT = "--least-speed 20 asks for faster answers to each user, --least-speed 0 for any."


@click.command()
@click.option("--gpu", metavar="NAME", shell_complete=gpu_names, help="GPU to use. The default is the GPUs of this machine.")
@click.option(
    "--gpus",
    type=click.IntRange(1, 10**4),
    metavar="N",
    help="Number of GPUs. The default is 1, or all GPUs of this machine or of the inventory.",
)
@own_option
@click.option("--task", type=click.Choice(TASKS), default="serve", show_default=True, help="Task to run on the GPUs.")
@settings_option("One key of the workload or the layout (input_tokens=2000, targets.p95_ttft_s=1, tp=8, model=qwen3-32b).")
@click.option(
    "--by", "order", type=click.Choice(get_args(Order)), default="size", show_default=True, help="Sort by the largest "
    "model in the best precision; or by the most tokens per second, the most users or the longest context, models at least half as large as "
    "the largest first: small models are always faster.",
)  # fmt: skip
@click.option(
    "--least-speed",
    type=click.FloatRange(0, 10**6),
    metavar="N",
    help="Minimum tokens per second for each user of a service; 0: any. The default is 10. A load or a latency target that is set "
    "is used instead.",
)
@click.option("--top", type=click.IntRange(1, 10**6), metavar="N", help="At most this many rows.")
@click.option("--all", "every", is_flag=True, help="Show every precision of a model, and the models that do not fit.")
@basis_option
@json_option
@pass_invocation
def fit(
    invocation: Invocation,
    /,
    gpu: str | None,
    gpus: int | None,
    own: Path | None,
    task: str,
    settings: tuple[str, ...],
    order: Order,
    least_speed: float | None,
    top: int | None,
    every: bool,
    basis: BasisChoice,
    as_json: bool,
) -> int:
    """List models of the catalogue that run on given GPUs, in every weight precision, with context, users and speed.

    Every row is the answer of `estimate` to the line in its "request". Exits with 1 if no model fits.
    """
    session = invocation.session()
    pools = session.machines(own) if own else [_hardware(session, gpu, gpus)]
    if own:
        pools = _chosen(session, pools, gpu)
    fields = with_settings({"task": task}, parse_settings(settings))
    asked = partial(session.fit, order=order, basis=basis, each_tokens_per_s=least_speed)
    try:
        found = [_answer(asked, pool, gpus, fields) for pool in pools]
    except UserError as wrong:
        raise name_sources(wrong, settings, (), "") from wrong
    _write(
        [_cut(one, top) if as_json else one for one in found], top or DEFAULT_ROWS, every=every, as_json=as_json, pools=bool(own)
    )
    return ExitCode.ANSWERED if any(row.rank for one in found for row in one.rows) else ExitCode.NOTHING_FOUND


def _answer(ask: Callable[..., Fit], pool: Own, gpus: int | None, fields: dict[str, Any]) -> Fit:
    """Models that run on a pool of equal GPUs, or on `gpus` of them; the pool's own keys fill in what the workload leaves out."""
    usual: dict[str, Any] = {} if pool.link is None else {"link": pool.link}
    if pool.power_limit_w is not None:
        usual["power_limit_w"] = pool.power_limit_w
    per_node = pool.count if pool.nodes > 1 and not pool.mig else None
    return ask(usual | fields, pool.part, min(gpus or pool.gpus, pool.gpus), per_node=per_node)


def _chosen(session: Session, pools: list[Own], gpu: str | None) -> list[Own]:
    """Pools of the named GPU, all pools if none is named."""
    if gpu is None:
        return pools
    name = _hardware(session, gpu, None).gpu
    found = [pool for pool in pools if name in {pool.gpu, pool.part}]
    if not found:
        raise UserError(
            Problem("--gpu", "", f"{name!r} is not in the inventory.", nearest_names(name, [pool.part for pool in pools]))
        )
    return found


def _cut(found: Fit, top: int | None) -> Fit:
    return found if top is None else msgspec.structs.replace(found, rows=found.rows[:top])


def _hardware(session: Session, gpu: str | None, gpus: int | None) -> Own:
    """Named GPUs, or those of this machine; raises `UserError` if there are neither."""
    if gpu is not None:
        known = session.gpus
        try:
            return Own(gpu=known.find(gpu).name, count=gpus or 1)
        except UserError as unknown:
            raise UserError([Problem("--gpu", "", problem.message, problem.nearest) for problem in unknown.problems]) from unknown
    here = session.local_counts()
    here.pop(session.machine.cpu.name, None)
    if not here:
        raise UserError(Problem("--gpu", "", "missing: this machine has no GPU of the catalogue; name a GPU."))
    name = max(here, key=lambda name: here[name])
    say(f"on {gpus or here[name]} × {name} of this machine")
    return Own(gpu=name, count=gpus or here[name])


def _write(found: list[Fit], top: int, *, every: bool, as_json: bool, pools: bool) -> None:
    if as_json:
        write_json({"pools": found} if pools else found[0])
        return
    from planner.cli.terminal.sections import console, print_sections
    from planner.present.fit.sections import fit_sections, shown_rows

    for one in found:
        rows = shown_rows(one, every=every)
        hints = [SPEED_HINT] if one.each_tokens_per_s is not None else []
        print_sections(fit_sections(one, rows[:top], len(rows), hints), console())
