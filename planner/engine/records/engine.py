"""Numbers of an engine that runs a model: how it launches kernels, forms iterations, keeps its cache and takes memory."""

from typing import Generic

import msgspec

from planner.engine.records.fields import N, default
from planner.units import GIB

BARE_CONTEXT_BYTES = 0.5 * GIB
"""Context of a plain PyTorch process. What an engine takes beyond it are its graphs and libraries, which no measured context holds."""


class EngineNumbers(msgspec.Struct, Generic[N], frozen=True, kw_only=True):
    """Numbers of one release of an engine (`Engine`), or columns of many; flags are 0 or 1."""

    launches_per_layer: N = default(0.0)
    """Operators the host launches for one layer of one forward pass; 0: replayed as a CUDA graph."""
    geforce_launches: N = default(1.0)
    """Host time of such an operator beside a GeForce card, over that on a server."""
    by_operators: N = default(0.0)
    """1: a layer's launches follow its family's operators, as its code is run as it is written; `launches_per_layer` are Llama's."""
    python_launches: N = default(1.0)
    """Host time of such an operator while generating, over that of a bare launch: the Python around it."""
    python_training: N = default(1.0)
    """Host time of such an operator while training, over that of a bare launch: autograd and autocast come with it."""
    pads_vocabulary: N = default(1.0)
    """1: the output head is padded to a multiple that tensor cores like."""
    step_launches: N = default(0.0)
    """Launches whose time the host spends on a micro batch outside its layers: embedding, head, loss, the optimizer's own Python."""
    frees_logits: N = default(0.0)
    """1: nothing holds the logits as they were computed during the backward pass; the loss keeps what it needs of them."""
    graph_context: N = default(0.0)
    """Tokens of context up to which a step of decoding is replayed as a CUDA graph all the same; prompts never are."""
    doubled_graphs: N = default(0.0)
    """Sequences of a decoding step beyond which CUDA graphs are captured for powers of two alone, to which smaller steps are padded; 0: for every number."""
    routing_launches: N = default(0.0)
    """Further launches for the routed experts of a layer while generating."""
    latent_launches: N = default(0.0)
    """Further launches for latent attention in a layer while generating."""
    launches_per_expert: N = default(0.0)
    """Further launches for each routed expert, whether a token goes to it or not."""
    kernels_per_layer: N
    """Kernels the device runs for one layer of one forward pass."""
    kernels_by_clock: N = default(0.0)
    """1: what a layer spends in starting and ending kernels goes by the clock of the part."""
    host_step_s: N
    """Host time of one decoding step outside the model: scheduling, sampling, detokenising."""
    host_sequence_s: N = default(0.0)
    """Further host time of a step for each running sequence."""
    front_end_s: N = default(0.0)
    """Time of a request before its prompt is computed and after a token is: HTTP, tokeniser, detokeniser."""
    late_steps: N = default(0.0)
    """Steps that pass until a token is handed over, beside the one that makes it."""
    mixed_launches_per_layer: N = default(0.0)
    """Operators the host launches for one layer of an iteration in which prompts and running sequences meet; 0: replayed as a CUDA graph, too."""
    mixed_factor: N = default(1.0)
    """Device time of prompt tokens in such an iteration over that of prompts alone."""
    context_bytes: N
    """CUDA context, libraries, captured graphs."""
    communicator_bytes: N
    """Bytes that two or more GPUs add: NCCL buffers and other memory outside PyTorch's pool."""
    slack: N
    """Fraction the caching allocator reserves above what is allocated, of everything that comes and goes in training."""
    cache_slack: N = default(0.0)
    """Fraction reserved above a cache that grows token by token, which leaves blocks behind that are too small for the next one."""
    kept_activations: N = default(0.0)
    """Largest forward pass's temporaries that stay reserved when the logits are made, as a fraction."""
    cache_grows: N = default(0.0)
    """The cache holds the tokens there are; else room for whole requests is taken at once."""
    expands_latent: N = default(0.0)
    """Cache of multi-head latent attention holds full keys and values, not the latent."""
    copied_layers: N = default(0.0)
    """Layers whose cache stands twice while a token is appended to it."""
    append_passes: N = default(0.0)
    """Passes over the cache, at the memory's bandwidth, that copying it takes when a token is appended."""
    repeats_heads: N = default(0.0)
    """Keys and values are copied for every query head that shares them before a step's attention."""
    prompt_logits: N = default(0.0)
    """Logits are made of every token of the prompt, not of the last one alone."""
    unpacks: N = default(0.0)
    """Packed weights are unpacked to 16 bit before the product when more than a few rows need them."""
    torch_experts: N = default(0.0)
    """Routed experts are torch's own grouped products, whose measured rate holds for them."""
    copies_experts: N = default(0.0)
    """A decoding step copies the weights of the experts of each of its tokens, and multiplies with the copies."""
    gathers_biases: N = default(0.0)
    """Biases of routed experts are gathered for every token, whose gradients are then added up one after the other."""
    cdna3_experts_rate: N = default(0.25)
    """Rate of routed experts stored below 16 bit on AMD's CDNA 3, over that of other products, while generating. MI300X with vLLM of 2025:
    Qwen3 235B and 30B in FP8 ask for 0.21 and 0.17 (vllm-project/vllm#17535 and #17530), gpt-oss 20B in MXFP4 for 0.2; GLM 4.6 in 16 bit is 20 % too fast without any (#27323).
    CDNA 4 with AITER's kernels asks for none (GLM-5.2, one source)."""
    expert_layer_s: N = default(0.0)
    """Seconds of a layer with attention and routed experts in a service, beside its products, attention and kernels, but for GPUs of compute
    capability 11 and more."""
    permutes_tokens: N = default(0.0)
    """1: kernels of a service's routed experts bring the tokens of an expert together first, in buffers of their own."""
    expert_tile: N = default(0.0)
    """Maximum number of columns of a tile of products in 8 bit, to whose multiples the tokens of every expert are filled up; 0: none are."""
    expert_block: N = default(0.0)
    """Rows to whose multiples grouped products in 8 bit fill every expert of a rank, whether a token goes to it or not; 0: none are."""
    fuses_experts: N = default(0.0)
    """Experts' activation and rounding to 8 bit happen inside their grouped products where kernels exist (CuTeDSL, Blackwell)."""
    fp32_between: N = default(0.0)
    """Activations are FP32 between products, whose inputs and outputs are converted."""
    computes_on_host: N = default(0.0)
    """Products of few tokens with weights in the host's memory are computed by its processor; else those weights are moved to the GPU."""
    fp16_accumulate: N = default(0.0)
    """FP16 products add up in FP16, which GeForce parts do at twice the rate."""
    int8_per_cycle: N = default(0.0)
    """FLOP a multiprocessor does in a cycle where packed weights are multiplied with inputs rounded to INT8; 0: they are unpacked."""
    read_per_cycle: N = default(0.0)
    """Maximum number of bytes of weights a multiprocessor reads in a cycle in its products of a few rows, which are its own kernels; 0: those measured for other engines."""
    hbm_share: N = default(1.0)
    """Share of HBM's bandwidth that its products of a few rows reach where the multiprocessors' cycles are not known."""
    hop_s: N = default(0.0)
    """Time to hand a token to the next GPU where layers are split."""
    all_reduce_factor: N = default(1.0)
    """Time of an all-reduce between two products over that of nccl-tests."""
    divided_product_s: N = default(0.0)
    """Time to hand the inputs of a product to another GPU that has some rows of its matrix, and to fetch the outputs; 0: ranks add up what they have by collectives."""
    pipelined_prompt: N = default(0.0)
    """Share of the overlap there could be when the chunks of a prompt follow each other through the GPUs that hold the layers."""
    interleaves_stages: N = default(0.0)
    """Stages of a pipeline work at once on different micro batches of the requests in flight; else one waits for the other."""
    device_factor: N = default(1.0)
    """Device time over that of the formulas: gaps, clocks under load, products that no one tuned."""
    sampler_bytes: N = default(0.0)
    """Bytes for each logit of the most requests in flight that the sampler takes on every rank when the engine starts; 0: it takes none."""
    mxfp4_multiple: N = default(0.0)
    """Multiple to which inner widths of experts in MXFP4 are padded, and twice it to which the model's width is; 0: they are kept as they are."""
    gptq_scratch_tokens: N = default(0.0)
    """Tokens the scratch of the GPTQ kernels is laid out for, in FP32 at the width of the widest layer."""
    rounds_apart: N = default(0.0)
    """Inputs of products below 16 bit are rounded by kernels of their own."""
    rounds_blocks_apart: N = default(0.0)
    """Inputs of products whose scales are of blocks, as mixtures are published, are rounded by kernels of their own; others by the kernels before them."""
    cache_block_tokens: N = default(1.0)
    """Tokens the cache is given out in."""
    window_share: N = default(0.0)
    """Tokens that layers with a window have room for, as a share of those of the other layers, where each have a pool; 0: one pool for all."""
    state_slots: N = default(0.0)
    """States of recurrences that a request takes in a pool of their own; 0: they share the cache's."""
    prefill_chunk: N = default(0.0)
    """Most prompt tokens in one forward pass; 0: the whole prompt of the whole batch."""
    most_sequences: N = default(512.0)
    """Maximum number of requests in flight."""
    small_sequences: N = default(0.0)
    """Maximum number of requests in flight on a small GPU (`columns.limits`); 0: as on any other."""
    small_chunk: N = default(0.0)
    """Most prompt tokens in one pass of a service on a small GPU; 0: as on any other."""
    huge_chunk: N = default(0.0)
    """Most prompt tokens in one pass of a service on a GPU of 160 GiB or more; 0: as on any other."""
    pool_of_free: N = default(0.0)
    """1: the engine's share is one of the memory that weights and temporaries leave free, as its cache alone takes it; 0: of the whole GPU."""
    prompts_first: N = default(1.0)
    """Running sequences wait while prompts are computed; else both share an iteration."""
    waiting_prompts: N = default(3.25)
    """Prompts that end up waiting for each other in a closed loop of requests of one length after its first round, one's own included,
    where prompts share iterations. Of 727 published loops of two engines, whose own are 2 and 3.75 (scripts/calibration/fit_first_token.py, 2026-11-23)."""
    reserves_output: N = default(1.0)
    """A request is admitted only if the cache has room for its whole output."""
    fused_elementwise: N = default(0.0)
    """Norms, rotary embedding and activation are fused kernels."""
    divides_towers: N = default(0.0)
    """Ranks of tensor parallelism divide towers for pictures; else each holds them whole."""
    whole_between: N = default(0.0)
    """Ranks of tensor parallelism hold all tokens between the products they share (no sequence parallelism)."""
    gathers_logits: N = default(0.0)
    """1: tensor parallelism leaves every rank with whole logits, unless the program makes the loss parallel."""
    keeps_freed_gradients: N = default(0.0)
    """1: gradients that ranks share out stay reserved once they are freed, as their blocks are of another stream than activations."""
    keeps_gathered: N = default(0.0)
    """Inputs of attention and MLP that sequence parallelism gathered are kept whole for backward; else they are gathered again."""
    keeps_stage_outputs: N = default(0.0)
    """A pipeline stage keeps what it handed on until its backward pass."""
    flat_gradients: N = default(0.0)
    """Sharded weights are flat tensors with one gradient each, of frozen weights too, which is whole until the last micro batch."""
    torch_pipelines: N = default(0.0)
    """Pipelines divide a batch into as many parts as stages, or more. Sharded weights of a stage are gathered once in a step and stay whole to its
    last micro batch, as do their gradients."""
    stream_gradients: N = default(0.0)
    """Gradients of sharded weights are freed on another stream (`record_stream` of FSDP's first version), so that the allocator takes new blocks
    for those of each layer and keeps them."""
    accelerates: N = default(0.0)
    """Shards by accelerate: weights that are trained are FP32 under mixed precision, FSDP is of its first version by default, and gradients
    are exchanged in the last micro batch alone (`sync_each_batch` is off)."""
