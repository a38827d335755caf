"""Checks for numbers of a workload that contradict each other; the range of each number is checked by its type (`planner.numbers`)."""

from __future__ import annotations

from planner.errors import Problem, Problems, UserError
from planner.workload.tasks import Lengths, Workload, trains


def check_consistency(workload: Workload, problems: Problems) -> None:
    """Add to `problems` every number that contradicts another."""
    for name in ("arrival_variation", "batch_window_s"):
        value = getattr(workload, name)
        if value and workload.request_rate_per_s is None:
            problems.add("request_rate_per_s", f"missing; {name} = {value:g} says how requests arrive.")
    if workload.warmup_requests and workload.warmup_requests >= (workload.requests or 0):
        text = (
            f"{workload.warmup_requests} is not accepted; it has to be below requests, which is {workload.requests or 'missing'}."
        )
        problems.add("warmup_requests", text)
    if workload.max_num_seqs and workload.task != "serve":
        problems.add("max_num_seqs", f"is not accepted with {workload.task!r}; only a service has such a limit.")
    if workload.max_num_batched_tokens and trains(workload.task):
        problems.add("max_num_batched_tokens", f"is not accepted with {workload.task!r}; only prompts have such a limit.")
    if workload.cuda_graphs is not None and trains(workload.task):
        problems.add("cuda_graphs", f"is not accepted with {workload.task!r}; decoding steps alone are such graphs.")
    if workload.disaggregated and workload.task != "serve":
        problems.add(
            "disaggregated", f"is not accepted with {workload.task!r}; only 'serve' has replicas for prompts and for answers."
        )
    if workload.disaggregated and workload.batch_window_s:
        problems.add("batch_window_s", f"{workload.batch_window_s:g} is not accepted together with disaggregated.")
    if workload.images is not None and trains(workload.task):
        problems.add("images", f"{workload.images:g} is not accepted with {workload.task!r}; pictures are timed for prompts alone.")
    if workload.prefix_tokens is not None:
        given = workload.input_tokens.mean if isinstance(workload.input_tokens, Lengths) else workload.input_tokens
        if given is not None and workload.prefix_tokens >= given:
            problems.add("prefix_tokens", f"{workload.prefix_tokens} is not accepted; it has to be below input_tokens.")
    if workload.prefixes is not None and (workload.task != "serve" or not workload.prefix_tokens):
        text = "counts prefixes of prefix_tokens, which is missing." if workload.task == "serve" else "is for a service alone."
        problems.add("prefixes", f"{workload.prefixes} {text}")
    if workload.kv_offload and (workload.task != "serve" or workload.disaggregated):
        problems.add("kv_offload", "true is not accepted here; it is for a service whose replicas read prompts and decode.")
    _check_documents(workload, problems)
    _check_rollout(workload, problems)
    _check_offload(workload, problems)
    _check_epochs(workload, problems)
    amount = workload.tokens_to_train if trains(workload.task) else workload.requests
    if workload.targets.deadline_h is not None and amount is None:
        key = "train_tokens" if trains(workload.task) else "requests"
        problems.add(key, f"missing; a deadline of {workload.targets.deadline_h:g} h needs to know the amount of work.")


def _check_documents(workload: Workload, problems: Problems) -> None:
    """Check that documents belong to a training set, and packing to documents."""
    if workload.document_tokens is not None and not trains(workload.task):
        problems.add("document_tokens", f"is not accepted with {workload.task!r}; documents are of a training set.")
    elif workload.packing is not None and workload.document_tokens is None:
        problems.add("document_tokens", f"missing; packing = {workload.packing!r} needs to know how long documents are.")


def _check_rollout(workload: Workload, problems: Problems) -> None:
    """Check that a rollout belongs to training, is shorter than its sequences, and has its engine in one place."""
    rollout = workload.rollout
    if rollout is None:
        return
    if not trains(workload.task):
        problems.add("rollout", f"is not accepted with {workload.task!r}; answers are generated to be trained on.")
    if workload.sequence is not None and rollout.prompt_tokens >= workload.sequence:
        problems.add("rollout.prompt_tokens", f"{rollout.prompt_tokens} is not accepted; it has to be below sequence.")
    if rollout.gpus is not None and rollout.memory_share is not None:
        problems.add("rollout.memory_share", f"{rollout.memory_share:g} is not accepted beside gpus, which generate alone.")
    if rollout.gpus is not None and rollout.tp is not None and rollout.tp > rollout.gpus:
        problems.add("rollout.tp", f"{rollout.tp} is not accepted; there are {rollout.gpus} GPUs that generate.")


def check_planned(workload: Workload) -> None:
    """Raise `UserError` for settings that only a candidate given in full supports: a plan rents the GPUs of its layout and no others."""
    if workload.rollout is not None and workload.rollout.gpus is not None:
        message = (
            "is not accepted in a plan; plan the training alone, and the generation as a service with these prompts and answers."
        )
        raise UserError(Problem("", "rollout.gpus", message))


def _check_offload(workload: Workload, problems: Problems) -> None:
    """Check that a task without training offloads only weights, in a fixed batch: nothing else is timed."""
    given = workload.offload
    if trains(workload.task) or given in {None, "none"}:
        return
    if given != "parameters":
        problems.add("offload", f"{given!r} is not accepted with {workload.task!r}; it has to be 'parameters' or 'none'.")
    elif workload.task == "serve":
        problems.add(
            "offload", "'parameters' is not accepted with 'serve'; weights in the host's memory are timed for a fixed batch."
        )


def _check_epochs(workload: Workload, problems: Problems) -> None:
    """Check that the length of a job is given once: by its tokens, or by its epochs of a training set."""
    given = [name for name in ("dataset_tokens", "epochs") if getattr(workload, name) is not None]
    if workload.train_tokens is not None and given:
        problems.add("train_tokens", f"sets the length of the job, and so does {given[-1]}; leave one of them out.")
    elif len(given) == 1:
        missing = "epochs" if given == ["dataset_tokens"] else "dataset_tokens"
        problems.add(missing, f"missing; {given[0]} = {getattr(workload, given[0]):g} alone does not set the length of the job.")
