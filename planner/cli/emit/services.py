"""Services that `plan --emit` can write, which are entries of `presets/engines/services.toml`, and the distribution of replicas over machines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from planner.paths import read_shipped_part
from planner.units import digits

if TYPE_CHECKING:
    from planner.engine.answers.answer import LayoutAnswer
    from planner.engine.answers.plan import PlanRow
    from planner.engine.job.job import Job

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Compute dtype -> its name on the command lines of the engines."""


class Spread(msgspec.Struct, frozen=True):
    """Distribution of a service's replicas over machines."""

    gpus: int
    """GPUs of one machine."""
    nodes: int
    """Machines of one replica; several if it does not fit on one."""
    replicas: int
    """Number of separate servers."""
    local: int = 1
    """Number of replicas within each server."""
    tied: bool = False
    """True if replicas within a server share their experts."""


class Service(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options by which one engine's server is started."""

    name: str
    """Name of the engine in the spelling of its developers."""
    installed: str
    """Package that pip installs for NVIDIA GPUs."""
    port: int
    images: Mapping[str, str]
    """Vendor -> container image."""
    rounded: Mapping[str, str]
    """Weight format -> option that quantises 16-bit weights on loading; other formats have to be in the checkpoint."""
    caches: Mapping[str, str]
    """Format of the cache -> the engine's name for it."""
    starts: str
    """Program and arguments before the options; the shell variable MODEL names the model."""
    reads: tuple[str, ...]
    """Options for serving an encoder."""
    degrees: tuple[str, str, str, str]
    """Options of the degrees tp, pp, dp and ep."""
    counts_experts: bool = True
    """True if the option of ep takes the degree; else it is a flag."""
    attention: str = ""
    """Option for the replicas that share experts, if the option of tp counts all GPUs; '': replicas of dp share experts anyway."""
    memory: str
    """Option for the share of memory that the engine may use."""
    length: str
    """Option for the maximum context length."""
    whole_requests: bool = False
    """True if that option gets the longest request of a workload with known lengths; else what the cache holds."""
    eager: str
    """Option that disables CUDA graphs."""
    adapters: tuple[str, str, str]
    """Options for the number of adapters, their rank and their names."""
    adapters_on: tuple[str, ...]
    """Options that enable adapters."""
    adapter_ranks: tuple[int, ...] = ()
    """Values that the option of the rank accepts; empty: any."""
    ranks: tuple[str, ...] = ()
    """Shell line before the program if a replica spans several nodes."""
    across: str
    """Options by which several nodes find each other."""

    def lines(self, job: Job, row: PlanRow, spread: Spread, hub_id: str) -> Iterator[str]:
        """Lines of shell that run the server."""
        layout = row.answer.layout
        assert layout is not None
        tp, pp, dp, ep = self.degrees
        share = self.attention if spread.tied else ""
        cut = layout.tp * spread.local if share else layout.tp
        words: dict[str, Any] = {"--host": "0.0.0.0", "--port": self.port, tp: cut, pp: layout.pp}  # noqa: S104  # the server has its own machine or pod
        words |= {dp: spread.local} if spread.local > 1 else {}
        words |= {share: None} if share else {}
        words |= {ep: layout.ep if self.counts_experts else None} if layout.ep > 1 else {}
        words[self.memory] = digits(job.memory_fraction)
        words |= {self.length: length} if (length := self._longest(job, row)) else {}
        words |= {self.eager: None} if job.workload.cuda_graphs is False else {}
        words |= {"--dtype": DTYPES[job.dtype]} if job.dtype in DTYPES else {}
        words |= {"--quantization": self.rounded[job.stored]} if self._rounds(job) else {}
        cache = self.caches[job.workload.kv_dtype or "bf16"]
        words |= {"--kv-cache-dtype": cache} if cache != "auto" else {}
        every = [str(word) for option in words.items() for word in option if word is not None]
        given = shlex.join([*every, *(self.reads if job.architecture.encoder else ()), *self._adapted(job)])
        yours = f" ${{ADAPTERS:+{self.adapters[2]} $ADAPTERS}}" if job.workload.lora else ""
        yield f'MODEL="${{MODEL:-{hub_id}}}"'
        yield from self.ranks if spread.nodes > 1 else ()
        yield f"exec {self.starts} {given}{yours}{self.across if spread.nodes > 1 else ''}"

    def _adapted(self, job: Job) -> Iterator[str]:
        """Options of adapters; a rank that the engine does not accept is rounded up to one that it does."""
        lora, (number, rank, _) = job.workload.lora, self.adapters
        if lora is not None:
            wide = next((one for one in self.adapter_ranks if one >= lora.rank), lora.rank)
            yield from (*self.adapters_on, number, str(job.workload.adapters or 1), rank, str(wide))

    def left_out(self, job: Job, layout: LayoutAnswer, hub_id: str) -> Iterator[str]:
        """Sentences on settings that the engine's command line cannot express, without full stops."""
        if layout.cp > 1:
            yield f"{self.name} jobs cannot be written with context parallelism"
        if layout.ep > 1 and (layout.ep % layout.tp or (layout.ep > layout.tp and layout.pp > 1)):
            yield f"{self.name} spreads experts over all GPUs of a server, not over ep = {layout.ep} with tp = {layout.tp}, pp = {layout.pp}"
        if layout.ep > max(layout.tp, layout.gpus_per_node):
            yield f"replicas that share experts are written on one machine, not ep = {layout.ep} over several"
        if (job.workload.kv_dtype or "bf16") not in self.caches:
            yield f"{self.name} has no cache of {job.workload.kv_dtype}"
        if not hub_id:
            yield f"the model has no id on the Hugging Face hub, which {self.name} needs to load it"

    def notes(self, job: Job) -> Iterator[str]:
        """Notes to read before the service is started."""
        if job.engine.runs:
            yield f"{job.engine.runs}; what is started here is {self.name}."
        if job.stored not in DTYPES and not self._rounds(job) and job.stored != job.architecture.stored_as:
            yield f"MODEL has to be a checkpoint with weights stored as {job.stored}; the one named here is the original."
        if job.workload.lora:
            yield "ADAPTERS has to name your adapters: NAME=PATH, separated by spaces."
        if job.workload.kv_offload:
            yield f"{self.name} stores prefixes in the host's memory only if you add its option with the size."

    def _longest(self, job: Job, row: PlanRow) -> int | str | None:
        """Maximum context length in tokens, or the engine's word for as much as its cache holds; None: that of the model.

        vLLM does not start with a number above what its cache holds. It determines the number itself if lengths of requests differ.
        """
        if not self.whole_requests:
            return row.answer.max_context
        lengths = (job.workload.prefix_tokens or 0, job.workload.input_tokens, job.workload.output_tokens)
        if all(isinstance(one, int | float) for one in lengths):
            return round(job.input_tokens + (0 if job.architecture.encoder else job.output_tokens))
        return "auto" if row.answer.max_context else None

    def _rounds(self, job: Job) -> bool:
        """True if the engine quantises the checkpoint on loading: it is in 16 bit, and the engine has an option for the format."""
        return job.stored in self.rounded and job.stored != job.architecture.stored_as


def spread_of(job: Job, layout: LayoutAnswer, *, groups: bool = False) -> Spread | None:
    """Distribution of a service over machines; None if replicas span machines without `groups`, or leave part of a machine unused.

    `groups`: the scheduler supports groups of machines, so several replicas can span machines.
    Replicas of a dense model on one machine are one server, which balances between them. Replicas of a model with experts are one
    server if they share experts; otherwise each has its own server.
    """
    replica, room = layout.tp * layout.pp, layout.gpus_per_node
    if tied := layout.ep // layout.tp * (layout.ep > layout.tp):
        return Spread(layout.ep, 1, layout.dp // tied, tied, tied=True)
    if replica > room:
        whole = (groups or layout.dp == 1) and replica % room == 0
        return Spread(room, replica // room, layout.dp) if whole else None
    local = min(layout.dp, room // replica)
    if job.architecture.experts or layout.dp % local:
        local = 1
    return Spread(replica * local, 1, layout.dp // local, local)


SERVICES = read_shipped_part(dict[str, Service], "services", "engines", "services.toml")
"""Engine -> its server (docs.sglang.io: advanced_features/server_arguments, read 2026-11-22, dp_dpa_router_guide and lora, read 2026-11-27;
docs.vllm.ai: serving/parallelism_scaling, serving/expert_parallel_deployment, features/lora, cli/serve)."""
