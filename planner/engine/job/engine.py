"""What can be said of an engine that runs a model: how it launches kernels, forms iterations, keeps its cache and takes memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One inference or training engine, as it is from one of its releases on."""

    name: str
    since: tuple[int, ...] = ()
    """First release this record holds for; (): any earlier one."""
    trains: bool = False
    """It runs training and fine-tuning, too."""
    launches_per_layer: float
    """Operators the host launches for one layer of one forward pass; 0: replayed as a CUDA graph."""
    launches_per_expert: float = 0.0
    """And for each routed expert there is, whether a token goes to it or not."""
    kernels_per_layer: float
    """Kernels the device runs for one layer of one forward pass."""
    host_step_s: float
    """Host time of one decoding step outside the model: scheduling, sampling, detokenising."""
    host_sequence_s: float = 0.0
    """More of it for each running sequence."""
    mixed_launches_per_layer: float = 0.0
    """Operators the host launches for one layer of an iteration in which prompts and running sequences meet; 0: replayed as a CUDA graph, too."""
    mixed_factor: float = 1.0
    """Device time of prompt tokens in such an iteration over that of prompts alone."""
    context_bytes: float
    """CUDA context, libraries, captured graphs."""
    communicator_bytes: float
    """What two or more GPUs add: NCCL buffers and other memory outside PyTorch's pool."""
    slack: float
    """Fraction the caching allocator reserves above what is allocated, of everything that comes and goes in training."""
    cache_slack: float = 0.0
    """The same of a cache that grows token by token, which leaves blocks behind that are too small for the next one."""
    kept_activations: float = 0.0
    """Largest forward pass's temporaries that stay reserved when the logits are made, as a fraction."""
    cache_grows: bool = False
    """The cache holds the tokens there are; else room for whole requests is taken at once."""
    expands_latent: bool = False
    """The cache of multi-head latent attention holds full keys and values, not the latent."""
    copied_layers: float = 0.0
    """Layers whose cache stands twice while a token is appended to it."""
    prompt_logits: bool = False
    """Logits are made of every token of the prompt, not of the last one alone."""
    eager_attention: bool = False
    """Attention scores go through memory unless flash attention is asked for."""
    eager_families: frozenset[str] = frozenset()
    """Architectures it does so for, whatever it does for others."""
    packed_keep_inputs: bool = False
    """Products of bitsandbytes' weights keep their inputs for backward."""
    unpacks: bool = False
    """Packed weights are unpacked to 16 bit before the product when more than a few rows need them."""
    fp32_between: bool = False
    """Activations are FP32 between products, whose inputs and outputs are converted."""
    fp16_accumulate: bool = False
    """FP16 products add up in FP16, which GeForce parts do at twice the rate."""
    hbm_share: float = 1.0
    """Of the bandwidth of HBM that its products of a few rows reach, over that of GDDR."""
    hop_s: float = 0.0
    """Handing a token to the next GPU where layers are split."""
    pipelined_prompt: float = 0.0
    """Share of the overlap there could be when the chunks of a prompt follow each other through the GPUs that hold the layers."""
    device_factor: float = 1.0
    """Device time over that of the formulas: gaps, clocks under load, products that no one tuned."""
    gptq_scratch_tokens: int = 0
    """Tokens the scratch of the GPTQ kernels is laid out for, in FP32 at the width of the widest layer."""
    layer_split: bool = False
    """Several GPUs hold layers one after the other, unless tensor parallelism is asked for."""
    release: str = ""
    """Releases the record holds for, in words; said when none was named."""
    rounds_apart: bool = False
    """Inputs of products below 16 bit are rounded by kernels of their own."""
    fp8_cache: bool = False
    """With products in FP8 or FP4 the cache is FP8, unless told."""
    cache_block_tokens: int = 1
    """Tokens the cache is given out in."""
    pool_fraction: float | None
    """Share of the GPU's memory it claims at start; None: it grows as needed."""
    prefill_chunk: int
    """Most prompt tokens in one forward pass; 0: the whole prompt of the whole batch."""
    prompts_first: bool
    """Running sequences wait while prompts are computed; else both share an iteration."""
    prompts_together: float = 3.5
    """Where prompts share iterations: those that end up waiting for each other, one's own included, in a closed loop of requests of
    one length after its first round. Of 486 published loops of two engines, whose own are 3 and 3.75 (scripts/calibration/fit_first_token.py)."""
    reserves_output: bool
    """A request is admitted only if the cache has room for its whole output."""
    fused_elementwise: bool
    """Norms, rotary embedding and activation are fused kernels."""
    source: str
    context_source: str
    """What `context_bytes` rests on, in a line; as the next two."""
    communicator_source: str
    slack_source: str
    """Of `slack`, `cache_slack` and `kept_activations`."""
