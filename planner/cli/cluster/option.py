"""Option `--on`, and the cluster that it names."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from planner.errors import Problem, UserError

if TYPE_CHECKING:
    from planner.cli.cluster.ray_cluster import RayCluster


def _accepted(_ctx: click.Context, _param: click.Parameter, on: str | None) -> str | None:
    """Check that `on` names a cluster; raises `UserError`."""
    if on is not None and on != "ray" and not on.startswith("ray://"):
        raise UserError(Problem("--on", "", f"{on!r} is not accepted; give ray, or an address such as ray://HOST:10001."))
    return on


on_option = click.option(
    "--on",
    metavar="CLUSTER",
    callback=_accepted,
    help="Run on a Ray cluster: ray (this machine's cluster, or this machine alone) or an address, ray://HOST:PORT.",
)


@contextlib.contextmanager
def cluster_of(on: str | None) -> Iterator[RayCluster | None]:
    """Cluster named by `--on`, connected while this context is open; None without the option. Raises `UserError`."""
    if on is None:
        yield None
        return
    if importlib.util.find_spec("ray") is None:
        raise UserError(Problem("--on", "", "needs Ray: pip install 'gpu-planner[ray]'."))
    from planner.cli.cluster.ray_cluster import RayCluster

    with RayCluster.join(on) as cluster:
        yield cluster
