"""Engines that train, each as it was in its first releases and as later ones differ; some of them generate, too."""

from __future__ import annotations

from msgspec.structs import replace

from planner.engine.job.engine import CONTEXT, Engine
from planner.engine.records.engine import BARE_CONTEXT_BYTES
from planner.units import GIB

ALL_LAYERS = 1e9
"""More layers than any model has."""
_ATEN = "64 forward ATen operators a Qwen3 layer outside views, counted with PyTorch 2.13; one host launch each"
_HOST = "the Python around them while generating: as for Transformers, an assumption that litgpt's published rates agree with; while training 1.5 bare launches each and 150 a step: 2.0 and 200 beside an Xeon of 2.1 GHz (2.3 to 2.5 ms a layer of a Qwen3 decoder in plain torch, bare launch 6.3 µs), about 1.0 as the crossing of L4 and H100 near 0.5 B says (the published finding that `study --published` repeats); 29 to 33 kernels a layer generating, of 1.5 to 3.8 µs where they do next to nothing, and 112 in a step of training (torch 2.11, one H200 beside a Xeon of 2.1 GHz, 2026-11-26)"
_SDPA = "scaled_dot_product_attention puts FlashAttention 2 first; cuDNN's, faster on Hopper and on Blackwell of servers, was first in 2.5.0 alone (pytorch/pytorch#138522) and is again in 2.11, whose wheels bring cuDNN 9.15.1 or later (check_prefer_cudnn_attention, huggingface/transformers#48163); on parts of AMD it runs AOTriton, whose kernels Triton compiled until 0.11 brought AITER's assembly to PyTorch 2.9 (pytorch/pytorch#161754, 2025-09)"
_FITTED = "scripts/calibration/fit_allocator.py on 73 published pairs of device and PyTorch peaks"
_MASKS = "scaled_dot_product_attention gets a mask where a layer has a window that a sequence passes (masking_utils.py: _ignore_causal_mask_sdpa), and its FlashAttention takes none"
_APPENDING = "each step copies the cache to append a token (torch.cat), read and written at half of the bandwidth as values of 16 bit are copied one by one until torch 2.8 (pytorch/pytorch#102815 made wide loads for 32 bit, #150233 for 16; 3.8 passes in batches of 32 and 64 of Llama 2 7B on A100, optimum-benchmark), and repeats keys and values for the heads that share them (repeat_kv)"
_ACCELERATE = "its Trainer shards by accelerate: FP32 weights under mixed precision (Accelerator.prepare_model), FSDP's first version unless fsdp_version says 2"
_LEGACY = "until 4.45 every forward pass makes the logits of all its tokens, in 16 bit and FP32, and concatenates the caches of all layers before the old ones are freed; GPTQ by ExLlama v2 kernels, whose scratch is 4 B · 2,048 tokens · 8 sequences · the widest layer (AutoGPTQ); context and allocator: scripts/calibration/fit_allocator.py on 73 published pairs of device and PyTorch peaks (2026-11-21), less the 0.91 GB an A100 keeps for its driver; bitsandbytes of that time: until 0.43.1 (2024-04) MatMul4Bit keeps the input of every product"
_TRAINER_SLACK = (
    f"{_FITTED}; of what comes and goes in training 27 % (median) in 109 published pairs of PyTorch's and the device's peak (fms-acceleration, torch 2.4), "
    "6 % by PEFT's own benchmark (torch 2.13): between both"
)

FIRST = (
    Engine(
        name="torch",
        label="PyTorch",
        torch_attention=True,
        unfused_optimizer=True,
        ampere_attention=True,
        triton_attention=True,
        compiles_loss=True,
        keeps_gathered=1.0,
        torch_pipelines=1.0,
        trains=True,
        torch_experts=True,
        launches_per_layer=64,
        python_launches=2.6,
        python_training=1.5,
        step_launches=150,
        kernels_per_layer=40,
        host_step_s=0,
        context_bytes=BARE_CONTEXT_BYTES,
        communicator_bytes=1.0 * GIB,
        slack=0.06,
        device_factor=1.13,
        expands_latent=True,
        unpacks=True,
        release="before 2.9",
        slack_source="simulated, median 6 %",
        source=f"{_ATEN}; {_SDPA}; DTensor keeps inputs of products as they were gathered (torch.distributed.tensor.parallel: PrepareModuleInput redistributes before the product); torch.distributed.pipelining keeps a stage under FSDP2 gathered, and its gradients, until the last micro batch (stage.py: backward_maybe_with_nosync); {_HOST}; torch.optim.AdamW is foreach by default, not fused (pytorch/pytorch#95415); {CONTEXT}; allocator slack: simulated median 6 %; device factor: scripts/calibration/fit_engines.py on 63 published runs of MPT and InternLM on up to eight A100 (2026-11-21)",
    ),
    Engine(
        name="transformers",
        label="Transformers",
        unfused_optimizer=True,
        trains=True,
        launches_per_layer=155,
        by_operators=1.0,
        latent_launches=64,
        launches_per_expert=22,
        kernels_per_layer=64,
        host_step_s=1.5e-3,
        context_bytes=0.56 * GIB,
        communicator_bytes=0.5 * GIB,
        slack=0.14,
        cache_slack=0.22,
        kept_activations=1.45,
        cache_grows=True,
        copied_layers=ALL_LAYERS,
        append_passes=4.0,
        repeats_heads=True,
        prompt_logits=True,
        gptq_scratch_tokens=16384,
        packed_keep_inputs=True,
        prepares_adapters=True,
        pads_vocabulary=False,
        ampere_attention=True,
        triton_attention=True,
        eager_by_family=True,
        masks_windows=True,
        recurrences_apart=True,
        torch_attention=True,
        expands_latent=True,
        unpacks=True,
        device_factor=1.45,
        layer_split=True,
        accelerates=1.0,
        release="before 4.45",
        context_source=f"{CONTEXT}: {_FITTED}",
        slack_source=_TRAINER_SLACK,
        source=f"operators of a layer and the Python around them take as long as 155 bare launches: 0.71 to 0.83 ms a layer of published eager steps in 16 bit on A100 (Qwen 1, Qwen 2, Llama 2 and Mistral, three sources); {CONTEXT}; device factor: scripts/calibration/fit_engines.py on 39 published prompts and LoRA steps of Llama 2 and Mistral on A100 (2026-11-21); a loop over the experts: published rates of Qwen2 57B-A14B; more or fewer for other operators, which are those of latent attention and of routing, too (counted on the meta device: `operators_of_layer`; DeepSeek V2 83, Mixtral 62, Llama 51); families without scaled_dot_product_attention: transformers 5.23; {_MASKS}; {_ACCELERATE}; {_APPENDING}; {_LEGACY}",
    ),
    Engine(
        name="megatron",
        label="Megatron",
        trains=True,
        generates=False,
        launches_per_layer=40,
        kernels_per_layer=40,
        host_step_s=0,
        context_bytes=0.6 * GIB,
        communicator_bytes=1.5 * GIB,
        slack=0.06,
        device_factor=1.1,
        fused_elementwise=True,
        keeps_8_bit_inputs=True,
        recomputes_modules=True,
        release="before 26.06",
        slack_source="as torch: an assumption",
        source="fused softmax, norms and bias-activation kernels; Transformer Engine keeps what it rounded (Linear and GroupedLinear save FP8 tensors, 2.0); selective recomputation by modules, experts weighed inside their activation (Megatron Core 0.14, 2025-08); device factor: scripts/calibration/fit_engines.py on 19 published runs of dense models on A100 and H100 (2026-11-23), 1.18 with BLOOM's cluster",
    ),
)

_TORCH = next(engine for engine in FIRST if engine.name == "torch")
_TRANSFORMERS = next(engine for engine in FIRST if engine.name == "transformers")
_MEGATRON = next(engine for engine in FIRST if engine.name == "megatron")
_SINCE_4_45 = replace(
    _TRANSFORMERS,
    since=(4, 45),
    released="2024-09",
    release="4.45 to 4.57",
    device_factor=1.0,
    prompt_logits=False,
    copied_layers=1.0,
    gptq_scratch_tokens=0,
    packed_keep_inputs=False,
    source=f"{_TRANSFORMERS.source}; device factor since then: scripts/calibration/fit_engines.py on 10 published steps of one model and source (A100, packed sequences), the prompts and steps of older releases on which theirs is fitted were not packed; since 4.45 generate asks for the last token's logits alone (num_logits_to_keep) and DynamicCache appends layer by layer",
)
_SINCE_2_9 = replace(_TORCH, since=(2, 9), released="2025-10", release="2.9 and 2.10", triton_attention=False)
LATER = (
    _SINCE_2_9,
    replace(_SINCE_2_9, since=(2, 11), released="2026-03", release="2.11 and later", ampere_attention=False),
    replace(
        _MEGATRON,
        since=(26, 6),
        released="2026-06",
        release="26.06 and later",
        fuses_experts=True,
        source=f"{_MEGATRON.source}; since NeMo 26.06 fused grouped products of experts on B200, B300, GB200 and GB300 (release notes of Megatron-Bridge 0.5.1: CuTeDSL fused GGEMM)",
    ),
    _SINCE_4_45,
    replace(
        _SINCE_4_45,
        since=(5,),
        released="2026-01",
        release="5.0 and later",
        launches_per_expert=0,
        torch_experts=True,
        copies_experts=1.0,
        routing_launches=30,
        gathers_biases=1.0,
        append_passes=2.0,
        repeats_heads=False,
        ampere_attention=False,
        device_factor=1.22,
        frees_logits=True,
        triton_attention=False,
        unfused_optimizer=False,
        source=f"{_TRANSFORMERS.source}; device factor since 5.0: 1.14 to 1.33 in ten steps and prompts of 1 B to 8 B parameters measured on one H200 (5.17 with torch 2.11, 2026-11-26; docs/evidence/h200.md), as are PyTorch's peaks of 14 steps, from which follows that nothing holds the logits (before, the loss copied them to shift them); since 4.45 generate asks for the last token's logits alone (num_logits_to_keep) and DynamicCache appends layer by layer; adamw_torch_fused by default (huggingface/transformers#37358, with torch 2.8 or later); since 5.0 experts are two grouped products without a loop (experts_interface.md of 5.3: grouped_mm), whose biases are gathered by the expert of each token (integrations/moe.py), and while decoding products of copied weights (generation/utils.py: _optimize_model_for_decode, batched_mm), shared keys and values stay as they are where no mask is needed (use_gqa_in_sdpa), with torch 2.8 or later",
    ),
)
