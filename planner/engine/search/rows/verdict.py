"""Verdict on a candidate: solution or not, with the reason."""

from __future__ import annotations

import numpy as np

from planner.engine.answers.answer import Answer
from planner.engine.answers.plan import Verdict
from planner.engine.evaluate.evaluation import Evaluated
from planner.engine.search.deployment import Deployments
from planner.engine.search.supply.node_types import FILTERS, NodeType, host_bytes_per_gpu
from planner.engine.search.targets import missed
from planner.units import bytes_text, counted, digits, percent_text
from planner.workload.tasks import Workload

HOST_SHORT = "does not fit the host's memory"


def verdict_of(d: Deployments, row: int, answer: Answer) -> tuple[Verdict, str]:
    """(verdict, reason) of a row whose answer is `answer`."""
    if not answer.fits:
        return "does-not-fit", answer.reason or ""
    if d.node_type(row).left_out:
        return "misses-target", f"misses: {_no_offer(d.workload)}"
    short, faults = _host_short(d, row), _faults(d, row)
    if faults or short:
        misses = "misses: " + "; ".join(faults) if faults else ""
        return "misses-target", "; ".join(part for part in (short, misses) if part)
    limit = f"limited by {answer.bottleneck}"
    if d.sure[row]:
        return "fits", limit
    chance = percent_text(float(d.probability_fits[row]))
    settled = "a measurement here, one more GPU or a smaller batch would settle it"
    return "may-not-fit", "; ".join(
        part for part in (f"fits with a chance of {chance}", _doubt(d.evaluated, row, answer), settled, limit) if part
    )


def _faults(d: Deployments, row: int) -> list[str]:
    """Words for every target that is missed."""
    node, quote, faults = d.node_type(row), d.quote(row), []
    failing = float(d.failures[row] if d.failures.size > 1 else d.failures[0]) > 1
    if over := d.gpus[row] > node.most:
        faults.append(_too_many(int(d.gpus[row]), node))
    never_ends = quote is not None and quote.term == "spot" and np.isinf(d.bill.job_h[row])
    if never_ends:
        faults.append(f"may never end: of {counted(int(d.instances[row]), 'spot node')} one is lost before the next checkpoint")
    for name, column, limit in d.targets:
        value = float(column[row] if column.size > 1 else column[0])
        if never_ends and np.isinf(value):
            continue
        if not np.isfinite(value) and not node.here:
            faults.append(f"{name.partition('_')[0]} cannot be judged: no offer in the catalogue")
        elif value > limit:
            faults.append(missed(name, value, limit, failing=failing))
    queue = d.evaluated.queue
    if queue is not None and queue.endless(row):
        faults.append(f"does not keep up with {digits(float(queue.rate_per_s[row]))} requests a second")
    return faults if over else [*faults, *_too_few(d, row)]


def _too_many(gpus: int, node: NodeType) -> str:
    """Words for more GPUs than there are, or than the search considers: the number of replicas follows the load, and may exceed the limit."""
    if node.owned is None and not node.here:
        return f"over {node.most:,} GPUs, where the search ends"
    return (
        f"needs {gpus:,} GPUs, {'the capital buys' if node.owned is not None and node.owned.bought else 'there are'} {node.most:,}"
    )


def _no_offer(workload: Workload) -> str:
    """Reason why no offer of a GPU is left: the term, or the term and the filters."""
    market = [] if workload.market == "any" else [workload.market]
    given = [key for key in FILTERS if getattr(workload, key)]
    return f"no offer passes the filters ({', '.join([*market, *given])})" if given else f"no {workload.market} offer"


def _too_few(d: Deployments, row: int) -> list[str]:
    """Words for too few nodes, or too few joined nodes, at the provider."""
    quote, nodes, joined = d.quote(row), int(d.instances[row]), int(d.joined[row])
    if quote is None:
        return []
    if joined > max(1, quote.cluster):
        who = f"{quote.offer.provider} {quote.offer.instance}"
        return [
            f"{quote.cluster:,} of {joined:,} nodes can be joined by a network ({who})"
            if quote.cluster > 1
            else f"{joined:,} nodes need a network, {who} is sold without one"
        ]
    if nodes > quote.machines:
        counted = "counted on" if "max_nodes" in quote.assumed else "to be had"
        return [f"{quote.machines:,} of {nodes:,} nodes {counted} at once ({quote.offer.provider} {quote.offer.instance})"]
    return []


def _host_short(d: Deployments, row: int) -> str:
    """Words for a host with too little memory for what is offloaded; '' if it has enough."""
    needed, room = float(d.evaluated.memory.host[row]), host_bytes_per_gpu(d.quote(row))
    if needed > room:
        return f"{HOST_SHORT}: {bytes_text(needed)} needed for each GPU, the instance has {bytes_text(room)}"
    return ""


def _doubt(e: Evaluated, row: int, answer: Answer) -> str:
    """Words for a memory range whose high end is above the whole GPU, including the share kept free; '' if it is not.

    A service needs room for one request: with less memory its engine admits fewer requests.
    """
    memory, job = answer.memory_bytes, e.candidates.jobs[int(e.candidates.job_index[row])]
    assert memory is not None
    most = memory.total.high
    if job.task == "serve":
        most -= memory.kv_cache - min(memory.kv_cache, float(e.memory.kv_per_sequence[row] + e.memory.kv_shared[row]))
    room = float(e.memory.usable[row]) / (1 - job.headroom)
    return f"may need {bytes_text(most)}" if most > room else ""
