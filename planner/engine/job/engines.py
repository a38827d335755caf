"""The engines that are known, as records with sources, and how one is found by name and release."""

from __future__ import annotations

import re
from dataclasses import replace

from planner.engine.job.engine import Engine
from planner.engine.records.engine import BARE_CONTEXT_BYTES
from planner.errors import Problem, UserError, nearest_names
from planner.units import GIB

GENERIC = "generic"
"""The engine that stands for one that is not named."""
ALL_LAYERS = 1e9
"""More layers than any model has."""
_ATEN = "64 forward ATen operators a Qwen3 layer outside views, counted with PyTorch 2.13; one host launch each"
_CONTEXT = "CUDA context 0.3-0.6 GB (driver 535 and later)"
_FITTED = "scripts/calibration/fit_allocator.py on 73 published pairs of device and PyTorch peaks"
_BUFFERS = "buffers of NCCL or its like: an assumption"
_BLOCKS = "small, as memory is taken in large blocks at start: an assumption"

_LEGACY = "until 4.45 every forward pass makes the logits of all its tokens, in 16 bit and FP32, and concatenates the caches of all layers before the old ones are freed; GPTQ by ExLlama v2 kernels, whose scratch is 4 B · 2,048 tokens · 8 sequences · the widest layer (AutoGPTQ); context and allocator: scripts/calibration/fit_allocator.py on 73 published pairs of device and PyTorch peaks (2026-11-21), less the 0.91 GB an A100 keeps for its driver; bitsandbytes of that time: until 0.43.1 (2024-04) MatMul4Bit keeps the input of every product"

_RECORDS: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine(
            name="vllm",
            label="vLLM",
            compute_capability=(7, 0),
            kernels_per_layer=11,
            host_step_s=0.3e-3,
            host_sequence_s=36e-6,
            context_bytes=1.4 * GIB,
            communicator_bytes=2.1 * GIB,
            slack=0.02,
            cache_block_tokens=16,
            pool_fraction=0.9,
            prefill_chunk=8192,
            prompts_first=False,
            reserves_output=False,
            fused_elementwise=True,
            context_source="0.5 GiB: CUDA context is 0.3-0.6 GB (driver 535 and later); 0.9 GiB of CUDA graphs and libraries: an assumption, on the safe side of 0.27 GiB outside torch at TP 1 with vLLM 0.19 (llm-d planner accuracy report)",
            communicator_source="2.1 GiB outside torch at TP >= 2 with vLLM 0.19 (llm-d planner accuracy report)",
            slack_source=_BLOCKS,
            source="gpu_memory_utilization 0.9 and max_num_batched_tokens 8192 are vLLM V1's defaults; host time: "
            "scripts/calibration/fit_host_step.py on 130 published loops (2026-11-21) of up to 128 requests on one GPU model, those of release 0.12 alone show "
            "39 µs a sequence, those of a release of 2026 that is not named 3; iterations with prompts are piecewise CUDA graphs",
        ),
        Engine(
            name="sglang",
            label="SGLang",
            compute_capability=(7, 5),
            kernels_per_layer=11,
            host_step_s=0,
            host_sequence_s=12e-6,
            context_bytes=1.4 * GIB,
            communicator_bytes=2.1 * GIB,
            slack=0.02,
            pool_fraction=0.88,
            prefill_chunk=8192,
            reserves_output=False,
            fused_elementwise=True,
            context_source="as vLLM, which builds on the same libraries: an assumption",
            communicator_source="as vLLM, which builds on the same libraries: an assumption",
            slack_source=_BLOCKS,
            source="mem_fraction_static 0.88, chunked_prefill_size 8192, no mixed chunks: SGLang's defaults on 80 GB parts; it schedules a step beside the one before: "
            "host time of sequences alone, by scripts/calibration/fit_host_step.py on 77 published loops (2026-11-21) of one GPU model",
        ),
        Engine(
            name="tensorrt-llm",
            label="TensorRT-LLM",
            compute_capability=(8, 0),
            kernels_per_layer=9,
            host_step_s=0.1e-3,
            context_bytes=1.4 * GIB,
            communicator_bytes=1.5 * GIB,
            slack=0.0,
            rounds_apart=True,
            fp8_cache=True,
            mixed_launches_per_layer=180,
            mixed_factor=1.15,
            cache_block_tokens=32,
            pool_fraction=0.9,
            prefill_chunk=8192,
            prompts_first=False,
            fused_elementwise=True,
            context_source="as vLLM: an assumption",
            communicator_source="as vLLM without its custom all-reduce: an assumption",
            slack_source=_BLOCKS,
            source="free_gpu_memory_fraction 0.9, max_num_tokens 8192, guaranteed no eviction: TensorRT-LLM's defaults; "
            "checkpoints of its quantiser keep the cache of an FP8 model in FP8, too (kv_cache_quant_algo); CUDA graphs of decoding alone, unless "
            "piecewise ones are asked for; host time and mixed iterations: scripts/calibration/fit_host_step.py on 356 published loops (2026-11-21) of one GPU model",
        ),
        Engine(
            name="llama.cpp",
            label="llama.cpp",
            kernels_per_layer=22,
            host_step_s=0.2e-3,
            context_bytes=0.5 * GIB,
            communicator_bytes=0.2 * GIB,
            slack=0.0,
            eager_attention=True,
            unpacks=True,
            fp32_between=True,
            fp16_accumulate=True,
            hbm_share=0.66,
            hop_s=0.13e-3,
            pipelined_prompt=0.8,
            layer_split=True,
            prefill_chunk=512,
            prompts_first=False,
            fused_elementwise=True,
            context_source=_CONTEXT,
            communicator_source="copies between GPUs alone: an assumption",
            slack_source="its own pools, sized once",
            source="ggml CUDA graphs since 2024-05; n_ubatch defaults to 512; HBM share and hops: by hand from 304 published rates of Llama 3 on A100, RTX 3090, 4090 and A6000 (llama-bench, 2024-05); overlap of chunks: scripts/calibration/fit_engines.py on 54 of them (2026-11-21)",
        ),
        Engine(
            name="torch",
            label="PyTorch",
            trains=True,
            launches_per_layer=64,
            kernels_per_layer=64,
            host_step_s=0,
            context_bytes=BARE_CONTEXT_BYTES,
            communicator_bytes=1.0 * GIB,
            slack=0.06,
            device_factor=1.13,
            expands_latent=True,
            unpacks=True,
            context_source=_CONTEXT,
            communicator_source=_BUFFERS,
            slack_source="simulated, median 6 %",
            source=f"{_ATEN}; {_CONTEXT}; allocator slack: simulated median 6 %; device factor: scripts/calibration/fit_engines.py on 63 published runs of MPT and InternLM on up to eight A100 (2026-11-21)",
        ),
        Engine(
            name="transformers",
            label="Transformers",
            trains=True,
            launches_per_layer=185,
            launches_per_expert=22,
            kernels_per_layer=64,
            host_step_s=1.5e-3,
            context_bytes=0.56 * GIB,
            communicator_bytes=0.5 * GIB,
            slack=0.06,
            cache_slack=0.32,
            kept_activations=1.45,
            cache_grows=True,
            copied_layers=ALL_LAYERS,
            prompt_logits=True,
            gptq_scratch_tokens=16384,
            packed_keep_inputs=True,
            eager_by_family=True,
            expands_latent=True,
            unpacks=True,
            device_factor=1.45,
            layer_split=True,
            release="before 4.45",
            context_source=f"{_CONTEXT}: {_FITTED}",
            communicator_source=_BUFFERS,
            slack_source=_FITTED,
            source=f"70 operators a layer, each about 2.6 times a bare launch for the Python around it (published eager rates of Qwen2 and Llama 2 on A100); {_CONTEXT}; device factor: scripts/calibration/fit_engines.py on 39 published prompts and LoRA steps of Llama 2 and Mistral on A100 (2026-11-21); a loop over the experts: published rates of Qwen2 57B-A14B; families without scaled_dot_product_attention: transformers 5.23; {_LEGACY}",
        ),
        Engine(
            name="gpt-fast",
            label="gpt-fast",
            kernels_per_layer=9,
            host_step_s=0.1e-3,
            context_bytes=0.6 * GIB,
            communicator_bytes=0.8 * GIB,
            slack=0.03,
            fused_elementwise=True,
            context_source=_CONTEXT,
            communicator_source=_BUFFERS,
            slack_source="an assumption: blocks are allocated once",
            source="torch.compile with CUDA graphs: four products, attention and fused remainders a layer",
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
            fused_elementwise=True,
            context_source=_CONTEXT,
            communicator_source=_BUFFERS,
            slack_source="as torch: an assumption",
            source="fused softmax, norms and bias-activation kernels",
        ),
        Engine(
            name=GENERIC,
            label="an engine that is not named",
            kernels_per_layer=11,
            host_step_s=2.0e-3,
            context_bytes=0.5 * GIB,
            communicator_bytes=1.0 * GIB,
            slack=0.02,
            unpacks=True,
            pool_fraction=0.9,
            prefill_chunk=8192,
            prompts_first=False,
            fused_elementwise=True,
            context_source=_CONTEXT,
            communicator_source=_BUFFERS,
            slack_source=_BLOCKS,
            source=f"where no engine was named: fused kernels replayed as CUDA graphs; 2 ms a step between FasterTransformer's (published, A100) and LMDeploy's; {_CONTEXT}; a tenth of the GPU is left alone",
        ),
    )
}

_LATER_RELEASES = (
    replace(
        _RECORDS["transformers"],
        since=(4, 45),
        release="4.45 and later",
        prompt_logits=False,
        copied_layers=1.0,
        gptq_scratch_tokens=0,
        packed_keep_inputs=False,
        source=f"{_RECORDS['transformers'].source}; since 4.45 generate asks for the last token's logits alone (num_logits_to_keep) and DynamicCache appends layer by layer",
    ),
    replace(
        _RECORDS["vllm"],
        since=(0, 1),
        prefill_chunk=0,
        host_step_s=3.0e-3,
        source="V0: a prompt is one forward pass; gpu_memory_utilization 0.9 by default",
    ),
    replace(_RECORDS["vllm"], since=(0, 8)),
)

ENGINES: dict[str, tuple[Engine, ...]] = {
    name: (record, *(later for later in _LATER_RELEASES if later.name == name)) for name, record in _RECORDS.items()
}
"""Name -> its records, oldest release first. The first one is also taken where no release is named: of `transformers` it is
the one that needs most, so that what fits by it fits in any release."""


def find_engine(name: str, where: str = "") -> Engine:
    """The record of 'name' or 'name@release' (the newest that is not newer); raises `UserError` with what is accepted."""
    plain, _, release = name.partition("@")
    if plain not in ENGINES:
        problem = Problem(
            where, "engine", f"{name!r} is not accepted; it has to be one of {', '.join(ENGINES)}.", nearest_names(plain, ENGINES)
        )
        raise UserError(problem)
    records = ENGINES[plain]
    if not release:
        return records[0]
    if not re.fullmatch(r"v?\d+(\.\d+)*([.+-]?[A-Za-z]\w*)*", release):
        raise UserError(Problem(where, "engine", f"{release!r} is no release; it has to be numbers with dots, like {plain}@1.2."))
    numbers = tuple(int(part) for part in re.findall(r"\d+", release))
    return next((record for record in reversed(records) if record.since <= numbers), records[0])
