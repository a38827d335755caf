"""An engine that runs a model, with its sources."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from planner.engine.records.engine import EngineNumbers
from planner.workload.architecture import Architecture

CONTEXT = "CUDA context 0.3-0.6 GB (driver 535 and later)"
BUFFERS = "buffers of NCCL or its like: an assumption"
BLOCKS = "small, as memory is taken in large blocks at start: an assumption"


class Engine(EngineNumbers[float], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One inference or training engine, as it is from one of its releases on."""

    name: str
    label: str
    """The name as its makers spell it."""
    since: tuple[int, ...] = ()
    """First release this record holds for; (): any earlier one."""
    released: str = ""
    """Month in which that release came out, "2025-03"; "": before any other record's."""
    release: str = ""
    """Releases the record holds for, in words; shown when the workload names none."""
    peaks_compared: bool = False
    """A program that trains whose own memory was compared with published peaks; libraries hold what the program around them makes them hold."""
    runs: str = ""
    """Engine that runs behind a name which stands for another, in words."""
    latent_as: str = ""
    """Engine with its release that runs models with latent attention instead; "": this one does."""
    turns_on: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Keys of a workload -> the program's own default where the workload has no value."""
    trains: bool = False
    """Runs training and fine-tuning."""
    generates: bool = True
    """Runs inference."""
    compute_capability: tuple[int, int] = (0, 0)
    """Least compute capability of an NVIDIA GPU it runs on, by its installation page as of 2026-08; (0, 0): any."""
    eager_attention: bool = False
    """Attention scores go through memory unless the workload names flash attention."""
    ampere_attention: bool = False
    """Fused attention is FlashAttention 2 on every part, unless the workload names another kernel."""
    triton_attention: bool = False
    """Fused attention is compiled by Triton on parts of AMD (AOTriton before 0.11), unless the workload names another kernel."""
    eager_by_family: bool = False
    """They do so for the families that transformers has no fused attention for."""
    masks_windows: bool = False
    """A window is a mask, whether scores are stored or not; only FlashAttention, where it is requested, supports windows."""
    torch_attention: bool = False
    """Attention is PyTorch's scaled_dot_product_attention, or FlashAttention where that runs."""
    recurrences_apart: bool = False
    """Kernels of recurrences are those of packages that have to be installed besides."""
    unfused_optimizer: bool = False
    """AdamW is a kernel for each of its operations, unless the workload names another optimizer."""
    gradients_16_bit: bool = False
    """Gradients of 16-bit weights with FP32 master weights stay in 16 bit; else they are added up in FP32."""
    fuses_whole_loss: bool = False
    """A fused loss is applied where the weights are whole alone: logits are made under ZeRO 3."""
    prepares_adapters: bool = False
    """Adapters on packed weights are multiplied under autocast, and FP32 on those of bitsandbytes, as PEFT prepares them."""
    widens_residual: bool = False
    """Weights that are not packed in a bitsandbytes base are FP32, and with it the residual stream, where weights are not sharded (PEFT's
    prepare_model_for_kbit_training)."""
    head_apart: bool = False
    """Embedding and head are two matrices, whatever the model's own code ties."""
    joins_projections: bool = False
    """Query, key and value are one product, and keys and values are copied for each query head, whatever the model's own code does."""
    drops_adapter_inputs: bool = False
    """Inputs of adapters pass a dropout, which keeps a mask and whose result is no other product's input."""
    packed_keep_inputs: bool = False
    """Products of bitsandbytes' weights keep their inputs for backward."""
    keeps_8_bit_inputs: bool = False
    """Inputs of products in FP8 are kept in FP8 for backward; else in the 16 bit they came in."""
    recomputes_modules: bool = False
    """Checkpointing by operators computes whole modules again (`memory.recomputation`), and experts' outputs are weighed inside them."""
    stores: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Storage format -> the one that its files of that name have."""
    fetches: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Format a model is published in ('': 16 bit) -> that of the file it fetches where none is asked for."""
    loss_compiled: Literal["no", "asked", "always", "never"] = "no"
    """Condition for the loss of compiled code to be torch.compile's, which fuses its kernels and leaves the logits where they are: where a fused one is asked for, always,
    or never, as only layers are compiled; "no": a fused loss is a kernel of another library."""
    expert_parallel: bool = True
    """Experts can be divided among GPUs, also among those that hold replicas of the attention of a service."""
    layer_split: bool = False
    """Several GPUs hold layers one after the other, unless the workload names tensor parallelism."""
    most_pipelined_zero: int = 3
    """Highest ZeRO stage that its pipelines take."""
    eager_launches: float = 0.0
    """Operators of a layer that the host launches where CUDA graphs are turned off; 0: nothing is known of that."""
    fp8_cache: bool = False
    """The cache is FP8 beside products in FP8 or FP4, unless the workload states a format."""
    pool_fraction: float | None = None
    """Share of the GPU's memory it claims at start; None: it grows as needed."""
    source: str
    context_source: str = CONTEXT
    """Source of `context_bytes`, in a line."""
    communicator_source: str = BUFFERS
    """Source of `communicator_bytes`."""
    slack_source: str = BLOCKS
    """Source of `slack`, `cache_slack` and `kept_activations`."""

    def stores_scores(self, architecture: Architecture) -> bool:
        """True if attention scores go through memory when the workload names no kernel."""
        stored = self.eager_attention or (self.eager_by_family and architecture.eager_attention)
        return stored and architecture.scored_share > 0
