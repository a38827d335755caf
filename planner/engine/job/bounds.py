"""Numbers of a workload that are out of range or contradict each other."""

from __future__ import annotations

from planner.errors import Problems
from planner.workload.tasks import LATENCY_TARGETS, Lengths, Workload, trains

_POSITIVE = (
    "micro_batch",
    "global_batch",
    "sequence",
    "train_tokens",
    "dataset_tokens",
    "epochs",
    "batch",
    "requests",
    "request_rate_per_s",
    "max_gpus",
    "price_usd_per_gpu_h",
)


def check_ranges(workload: Workload, problems: Problems) -> None:
    """Add to `problems` every number that is out of range or contradicts another."""
    for name in _POSITIVE:
        value = getattr(workload, name)
        if value is not None and value <= 0:
            problems.add(name, f"{value} is not accepted; it has to be above 0.")
    for name, most in (("arrival_variation", 10.0), ("batch_window_s", 60.0)):
        value = getattr(workload, name)
        if value is not None and not 0 <= value <= most:
            problems.add(name, f"{value} is not accepted; it has to be from 0 to {most:g}.")
        elif value and workload.request_rate_per_s is None:
            problems.add("request_rate_per_s", f"missing; {name} = {value:g} says how requests arrive.")
    if workload.disaggregated and workload.task != "serve":
        problems.add(
            "disaggregated", f"is not accepted with {workload.task!r}; only 'serve' has replicas for prompts and for answers."
        )
    if workload.disaggregated and workload.batch_window_s:
        problems.add("batch_window_s", f"{workload.batch_window_s:g} is not accepted together with disaggregated.")
    if workload.memory_fraction is not None and not 0 < workload.memory_fraction <= 1:
        problems.add("memory_fraction", f"{workload.memory_fraction} is not accepted; it has to be above 0 and at most 1.")
    if workload.expert_imbalance is not None and workload.expert_imbalance < 1:
        problems.add("expert_imbalance", f"{workload.expert_imbalance:g} is not accepted; it has to be at least 1.")
    if isinstance(workload.concurrency, int) and workload.concurrency <= 0:
        problems.add("concurrency", f"{workload.concurrency} is not accepted; it has to be above 0, or 'max'.")
    if workload.prefix_tokens is not None:
        given = workload.input_tokens.mean if isinstance(workload.input_tokens, Lengths) else workload.input_tokens
        if workload.prefix_tokens < 0 or (given is not None and workload.prefix_tokens >= given):
            problems.add(
                "prefix_tokens", f"{workload.prefix_tokens} is not accepted; it has to be at least 0 and below input_tokens."
            )
    _check_epochs(workload, problems)
    amount = workload.tokens_to_train if trains(workload.task) else workload.requests
    if workload.targets.deadline_h is not None and amount is None:
        key = "train_tokens" if trains(workload.task) else "requests"
        problems.add(key, f"missing; a deadline of {workload.targets.deadline_h:g} h needs to know how much there is to do.")
    if workload.targets.headroom is not None and not 0 <= workload.targets.headroom < 1:
        problems.add("targets.headroom", f"{workload.targets.headroom} is not accepted; it has to be at least 0 and below 1.")
    if workload.targets.burst < 0:
        problems.add("targets.burst", f"{workload.targets.burst} is not accepted; it has to be at least 0.")
    for name in ("deadline_h", "budget_usd", *LATENCY_TARGETS):
        value = getattr(workload.targets, name)
        if value is not None and value <= 0:
            problems.add(f"targets.{name}", f"{value} is not accepted; it has to be above 0.")


def _check_epochs(workload: Workload, problems: Problems) -> None:
    """A job is as long as its tokens, or as its epochs of a training set."""
    given = [name for name in ("dataset_tokens", "epochs") if getattr(workload, name) is not None]
    if workload.train_tokens is not None and given:
        problems.add("train_tokens", f"says how long the job is, and so does {given[-1]}; leave one of them out.")
    elif len(given) == 1:
        missing = "epochs" if given == ["dataset_tokens"] else "dataset_tokens"
        problems.add(missing, f"missing; {given[0]} = {getattr(workload, given[0]):g} alone does not say how long the job is.")
