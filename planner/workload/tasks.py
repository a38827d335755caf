"""Fields of a workload and their accepted values, as presets, `--set`, the form and `estimate` spell them.

One `Workload` describes the job without hardware (a preset file is exactly this); a `Request` adds the GPU and the
layout (a line of `estimate` is exactly this). Absent means "choose for me": the engine fills it in and says so.
Field names and accepted values are a public contract.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta

from planner.numbers import Amount, Count, Dollars, Gpus, Location, Moderate, Name, Prose, Rate, Share, Title
from planner.workload.hardware.owned import Own, Owning, People
from planner.workload.optimizers import OPTIMIZERS

TaskName = Literal["train", "finetune", "generate", "serve", "prefill"]
Dtype = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4"]
KvDtype = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4"]
WeightDtype = Name
"""A name of `weights.FORMATS`."""
Recipe = Literal["fp32", "amp", "mixed", "bf16"]
Sharding = Literal["none", "zero1", "zero2", "zero3", "hsdp"]
Offload = Literal["none", "optimizer", "parameters", "activations"]
Checkpointing = Literal["none", "selective", "selective-op", "full"]
"""Recomputed in the backward pass: 'selective' attention scores, 'selective-op' all but attention and what the engine's list keeps, 'full' everything."""
Attention = Literal["flash", "flash-2", "flash-3", "memory-efficient", "eager"]
"""Attention kernels; all but 'eager' keep no scores. 'flash' is the engine's default, 'flash-2' FlashAttention 2, and 'memory-efficient'
kernels that also run on older GPUs, both written for tensor cores up to Ampere's; 'flash-3' FlashAttention 3 and later and cuDNN's, written
for newer ones."""
Loss = Literal["full", "chunked", "fused"]
Packing = Literal["padded", "longest", "joined", "separate"]
"""Documents in training sequences: 'padded' one in each, filled up to its length; 'longest' filled up to the longest of the micro batch;
'joined' one after the other, attending to earlier ones; 'separate' likewise, attending only to their own tokens."""
Objective = Literal["cheapest", "fastest", "flop-per-usd", "fewest-gpus"]
Term = Literal["on-demand", "spot", "reserved-1y", "reserved-3y"]
"""Terms on which GPUs are rented: by the hour, by the hour until they are taken away, for one year or three."""
Market = Literal[Term, "any"]
"""'any': all terms in one ranking."""
ProviderKind = Literal["hyperscaler", "gpu-cloud", "marketplace", "peer-to-peer"]
"""Kinds of provider; 'marketplace': data centres of others by auction; 'peer-to-peer': single hosts of private owners."""

if TYPE_CHECKING:
    Optimizer = str
else:
    Optimizer = Literal[tuple(OPTIMIZERS)]
"""A name of `optimizers.OPTIMIZERS`."""

LATENCY_TARGETS = tuple(f"{share}_{latency}_s" for share in ("p50", "p95", "p99") for latency in ("request", "ttft", "tpot"))
"""Names of `Targets` that limit a percentile of a latency."""

LoraTarget = Literal["q", "k", "v", "o", "gate", "up", "down"]
LORA_TARGETS: tuple[LoraTarget, ...] = get_args(LoraTarget)


def trains(task: object) -> bool:
    """True if the task changes weights: 'train' and 'finetune'."""
    return isinstance(task, str) and task in {"train", "finetune"}


class Lora(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Low-rank adapters; absent from a workload: every parameter is trained."""

    rank: Annotated[int, Meta(ge=1, le=2**16)] = 8
    targets: Literal["all-linear"] | Annotated[list[LoraTarget], Meta(max_length=32)] = "all-linear"
    base: WeightDtype = "bf16"
    """Storage format of the frozen base weights ('nf4': QLoRA)."""

    @property
    def adapted(self) -> tuple[str, ...]:
        """Projections that get adapters; all of them include those into and out of a recurrence (`in`, `out`)."""
        return (*LORA_TARGETS, "in", "out") if self.targets == "all-linear" else tuple(self.targets)


class Companion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A further model on the same GPUs: with a policy in training with feedback, or a draft in serving."""

    role: Literal["reference", "reward", "critic", "draft"]
    """'critic' is trained like the workload's own model; 'draft' proposes tokens while generating; the others are frozen."""
    model: Location | dict[str, Any] | None = None
    """Model as in the workload; absent: the same model."""
    weight_dtype: WeightDtype = "bf16"
    """Storage format of frozen weights; a critic follows the recipe."""
    acceptance: Share | None = None
    """For a draft: the chance, from 0 to 1, that a proposed token is accepted where those before it were. Absent: its memory counts, but
    its passes are not timed."""
    draft_tokens: Annotated[int, Meta(ge=1, le=32)] | None = None
    """For a draft with an acceptance: tokens it proposes for each pass of the model; absent: 4."""


Tokens = Annotated[float, Meta(ge=0.5, le=1e9)]
"""Tokens of one request; less than a half rounds to none."""


class Lengths(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A distribution of token lengths; `mean` is required."""

    mean: Tokens
    p50: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    p95: Tokens | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` for impossible lengths: half of them reach p50 and a twentieth p95, which limits the mean.

        A mean above p95 needs a tail of very few requests, which p95 does not describe.
        """
        if self.p50 is not None and self.p95 is not None and self.p50 > self.p95:
            raise ValueError(f"p50 = {self.p50:g} is more than p95 = {self.p95:g}")
        if self.p50 is None and self.p95 is not None and self.p95 < self.mean:
            raise ValueError(
                f"p95 = {self.p95:g} is below the mean of {self.mean:g}; a few very long requests need a p50 beside them"
            )
        for name, given, most in (("p50", self.p50, 2 * self.mean), ("p95", self.p95, 20 * self.mean)):
            if given is not None and given > most:
                raise ValueError(f"{name} = {given:g} is impossible where the mean is {self.mean:g}; it is at most {most:g}")


class Rollout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Answers that the model generates to be trained on (GRPO, RLOO, PPO), one for each sequence of the global batch."""

    prompt_tokens: Count
    answer_tokens: Count | Lengths
    answers: Count | None = None
    """Number of answers to each prompt, which is read once for all of them; absent: 8."""
    steps: Count | None = None
    """Optimizer steps on the answers of one rollout; absent: 1."""
    engine: Name | None = None
    """The engine that generates; absent: vLLM."""
    tp: Gpus | None = None
    """GPUs of one copy of the model that generates; absent: those of tensor parallelism in training."""
    memory_share: Share | None = None
    """Share of each GPU that the generating engine keeps during updates, too; absent: it sleeps then and frees its memory."""
    gpus: Gpus | None = None
    """GPUs that only generate, one step ahead of those that train; absent: the same GPUs do both in turn."""


def varies(tokens: int | Lengths | None) -> bool:
    """True if requests differ in length; a mean without a distribution counts as a fixed length."""
    return isinstance(tokens, Lengths) and (tokens.p50 is not None or tokens.p95 is not None)


class LatencyLimit(NamedTuple):
    """Upper limit of a percentile of a latency."""

    name: str
    """One of `LATENCY_TARGETS`."""
    share: str
    """'p50', 'p95' or 'p99'."""
    latency: str
    """'request', 'ttft' or 'tpot'."""
    seconds: float

    def of(self, predicted: Any) -> Any:
        """Limited figure of a record whose `ttft_s`, `tpot_s` and `request_s` hold percentiles."""
        return getattr(getattr(predicted, f"{self.latency}_s"), self.share)


class Targets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits that an answer has to meet to count as a solution."""

    deadline_h: Moderate | None = None
    """The whole job has to end within this many hours."""
    budget_usd: Dollars | None = None
    """The whole job may cost this much; for a service, a month of it."""
    p50_request_s: Moderate | None = None
    """Percentile of the time of a whole request (`request`), to its first token (`ttft`), or between its tokens (`tpot`)."""
    p50_ttft_s: Moderate | None = None
    p50_tpot_s: Moderate | None = None
    p95_request_s: Moderate | None = None
    p95_ttft_s: Moderate | None = None
    p95_tpot_s: Moderate | None = None
    p99_request_s: Moderate | None = None
    p99_ttft_s: Moderate | None = None
    p99_tpot_s: Moderate | None = None
    burst: Annotated[float, Meta(ge=0, le=1000)] = 0.0
    """Additional request rate to withstand, as a fraction (0.2: 20 %)."""
    headroom: Annotated[float, Meta(ge=0, lt=1)] | None = None
    """Fraction of usable memory to leave free; absent: 0.1 in a search, 0 for a candidate given in full."""

    def latency_limits(self) -> list[LatencyLimit]:
        """Percentiles of latencies that are limited."""
        limits = []
        for name in LATENCY_TARGETS:
            if (seconds := getattr(self, name)) is not None:
                share, latency, _ = name.split("_")
                limits.append(LatencyLimit(name, share, latency, seconds))
        return limits


Names = Annotated[list[Name], Meta(max_length=1000)]


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A job without hardware. A preset file holds these keys."""

    KEYS_ELSEWHERE: ClassVar[Mapping[str, str]] = {
        "gpu": 'gpus_considered = ["…"] limits a plan to GPUs',
        "gpus": "a plan looks for the number, up to max_gpus; `estimate` takes it",
        **dict.fromkeys(
            ("tp", "pp", "dp", "cp", "ep", "virtual_stages", "gpus_per_node", "link"),
            "a plan looks for the layout; `estimate` takes one, and `fit --set`",
        ),
    }
    """Keys that only a `Request` has -> what replaces them here."""

    title: Title = ""
    """One line for lists and headings."""
    description: Prose = ""
    model: Location | dict[str, Any]
    """A catalogue name, a path to a config.json or its directory, an id of the Hugging Face hub, or the config itself."""
    task: TaskName

    dtype: Dtype | None = None
    weight_dtype: WeightDtype | None = None
    kv_dtype: KvDtype | None = None
    recipe: Recipe | None = None
    optimizer: Optimizer | None = None
    lora: Lora | None = None
    sharding: Sharding | None = None
    companions: Annotated[list[Companion], Meta(max_length=16)] = []
    """Further models on the same GPUs; their memory counts, their passes are not timed except for a draft with a given acceptance."""
    adapters: Annotated[int, Meta(ge=1, le=10**6)] | None = None
    """LoRA adapters (of the size `lora` says) loaded at once while generating or serving; absent with `lora`: one."""
    offload: Offload | None = None
    checkpointing: Checkpointing | None = None
    attention: Attention | None = None
    loss: Loss | None = None
    compile: bool | None = None
    optimizer_in_backward: bool | None = None

    rollout: Rollout | None = None
    """For training with feedback: the answers that the model generates before each update."""

    micro_batch: Count | None = None
    """Sequences per data-parallel rank and forward pass."""
    global_batch: Count | None = None
    """Sequences per optimizer step, over all ranks."""
    sequence: Count | None = None
    """Tokens per training sequence; longer documents are cut to it."""
    document_tokens: Count | Lengths | None = None
    """Tokens of a document (an example, a conversation) of the training set; absent: documents fill their sequences."""
    packing: Packing | None = None
    """Packing of documents of `document_tokens` into sequences; absent: 'joined' in training from the start, 'longest' in fine-tuning."""
    train_tokens: Amount | None = None
    """Tokens of the whole job: turns tokens/s into hours and dollars."""
    dataset_tokens: Amount | None = None
    """Tokens of the training set; with `epochs` instead of `train_tokens`."""
    epochs: Moderate | None = None
    """Passes over the training set."""

    batch: Count | None = None
    input_tokens: Count | Lengths | None = None
    """Tokens of a prompt. Training: tokens that an encoder reads for each sequence, in addition to the `sequence` of its decoder."""
    output_tokens: Count | Lengths | None = None
    prefix_tokens: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    """Leading input tokens found in the prefix cache."""
    prefixes: Count | None = None
    """For a service: distinct prefixes of `prefix_tokens` that all requests share, each stored once on every replica; absent: every
    sequence stores its own."""
    images: Annotated[float, Meta(gt=0, le=10**4)] | None = None
    """Mean number of pictures in a prompt: a tower reads them before the first token. Their tokens are included in `input_tokens`."""
    image_tokens: Count | None = None
    """Tokens of each picture; absent: those of the model's own size, or of 1,024 × 1,024 pixels."""
    kv_offload: bool | None = None
    """For a service: keep prefixes in the host's memory, where they need no GPU memory; a request whose `prefix_tokens` are there waits
    until they have arrived over PCIe."""
    requests: Amount | None = None
    """Requests of a whole batch job: turns requests/s into hours and dollars. A load given in full ends after them, as a benchmark does:
    the ramp at its beginning and the drain at its end are part of every figure."""
    warmup_requests: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    """First of these `requests`, which are not measured. Without any, a mixture of experts answers the first requests a second later."""
    concurrency: Count | Literal["max"] | None = None
    """For a service: requests in flight; "max": as many as fit. Beside a request rate: most requests in flight, as the client or the engine limits them."""
    request_rate_per_s: Moderate | None = None
    arrival_variation: Annotated[float, Meta(ge=0, le=10)] | None = None
    """For a request rate: standard deviation ÷ mean of the time between requests. 1, or absent: Poisson; 3: in bursts; 0: evenly."""
    batch_window_s: Annotated[float, Meta(ge=0, le=60)] | None = None
    """For a request rate: how long a front end collects requests before it passes them to the engine together."""

    max_num_seqs: Count | None = None
    """For a service: most requests in flight on a replica; absent: the engine's default."""
    max_num_batched_tokens: Count | None = None
    """Maximum number of tokens of one iteration of a service, or of a pass over prompts (llama.cpp's n_ubatch); absent: the engine's default."""
    cuda_graphs: bool | None = None
    """False: decoding steps are launched kernel by kernel (vLLM's --enforce-eager, SGLang's --disable-cuda-graph); absent: the engine's default."""

    power_limit_w: Moderate | None = None
    """Power limit of each GPU (nvidia-smi -pl); one above the limit it ships with changes nothing."""
    clock_limit_hz: Annotated[float, Meta(ge=1e8, le=1e10)] | None = None
    """Highest clock of each GPU's multiprocessors (nvidia-smi -lgc)."""

    disaggregated: bool | None = None
    """For a service: some replicas only read prompts and send their cache to the others, which only decode."""

    engine: Name | None = None
    """'vllm', 'transformers', …, with an optional '@version'."""
    memory_fraction: Annotated[float, Meta(ge=0.01, le=1)] | None = None
    expert_imbalance: Annotated[float, Meta(ge=1, le=1e4)] | None = None
    """Tokens of the busiest expert-parallel rank ÷ their mean; absent: 1 in training, else the fourth root of the ranks."""
    price_usd_per_gpu_h: Moderate | Annotated[dict[Name, Moderate], Meta(max_length=100)] | None = None
    """Price that replaces offers: a number for the GPUs considered, or a table with one for each GPU."""
    own: Annotated[list[Own], Meta(max_length=100)] = []
    """Owned machines: ranked with rented ones, at the cost of keeping them."""
    owning: Owning | None = None
    """Costs of owning GPUs apart from their price."""
    capex_usd: Dollars | None = None
    """Capital to buy GPUs with, which are ranked with rented ones."""
    daily_users: Amount | None = None
    """Users of a service on one day, from which the request rate in the busiest hour follows."""
    people: People | None = None
    """Messages of a user, and the ratio of the busiest to the mean hour."""

    confidence: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    """Probability with which a candidate has to fit to count as one that fits."""
    targets: Targets = msgspec.field(default_factory=Targets)
    objective: Objective = "cheapest"
    market: Market = "on-demand"
    providers: Names = []
    """Restrict offers to these providers; empty: all."""
    kinds: Annotated[list[ProviderKind], Meta(max_length=16)] = []
    """Restrict offers to these kinds of providers; empty: all."""
    regions: Names = []
    """Restrict offers to these regions, with * and ?; empty: all."""
    countries: Names = []
    """Restrict offers to data centres in these countries (ISO 3166 codes, 'EU', 'EEA'); empty: all."""
    certifications: Names = []
    """Restrict offers to providers that are known to hold all of these, such as 'ISO 27001'."""
    exclude: Names = []
    """Leave out these providers, kinds of providers, instances (with * and ?) and GPUs."""
    fabric: Name | Rate | None = None
    """Network between nodes: 'infiniband', 'ethernet', 'none', or bytes/s per GPU and direction; absent: the one each offer is sold with."""
    max_nodes: Gpus | None = None
    """Maximum number of nodes available at once; absent: each provider's number, or the usual one of its kind."""
    commitment_use: Share | None = None
    """Share of the unused rest of a commitment that other work uses; absent: none, so that a job pays the whole commitment."""
    checkpoint_interval_h: Moderate | None = None
    """Hours between checkpoints on spot instances; absent: the best for the likely interruptions, at most 24."""
    spot_interruptions_per_h: Annotated[float, Meta(ge=0, le=100)] | None = None
    """Interruptions of a spot instance per hour; absent: between the rates that two clouds publish."""
    gpus_considered: Names = []
    """Restrict the search to these GPUs (names or aliases); empty: all."""
    max_gpus: Gpus | None = None
    """Upper limit of the number of GPUs in the search."""

    @property
    def tokens_to_train(self) -> float | None:
        """Tokens of the whole job, as given or over all epochs; None if neither is given."""
        if self.train_tokens is None and self.epochs and self.dataset_tokens:
            return self.epochs * self.dataset_tokens
        return self.train_tokens


class Request(Workload, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One fully given candidate: a workload on a GPU in a layout. Absent degrees are chosen, best first."""

    id: Any = None
    gpu: Name
    gpus: Gpus | None = None
    gpus_per_node: Gpus | None = None
    link: Name | Rate | None = None
    """'nvlink', 'pcie', or bytes/s per GPU and direction, inside a node."""
    tp: Gpus | None = None
    pp: Gpus | None = None
    dp: Gpus | None = None
    cp: Gpus | None = None
    ep: Gpus | None = None
    virtual_stages: Gpus | None = None
    prefill_replicas: Gpus | None = None
    """Number of the dp replicas of a disaggregated service that only read prompts; absent: the number that serves the most."""
