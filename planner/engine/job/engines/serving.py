"""Engines that serve and generate, each as it was in its first releases and as later ones differ."""

from __future__ import annotations

import math

from msgspec.structs import replace

from planner.engine.job.engine import CONTEXT, Engine
from planner.units import GIB

GENERIC = "generic"
"""The engine that stands for one that is not named."""

EAGER = 70.0
"""Operators of a layer that vLLM's host launches, at the 5 us of a bare launch, where no CUDA graph is replayed."""
_EAGER = "launches: 0.35 ms a layer. Published: 0.33 to 0.43 for Qwen2 0.5B and 1.5B beyond 8,192 tokens (A100, 0.4)"
PIECES = 24.0
"""Those beside CUDA graphs of the pieces between attention: a graph's replay, attention and writing to the cache, and Python around them."""
_PIECES = (
    "launches: 0.12 ms a layer on servers, between what four sources of 0.8 to 0.10 ask for in times per token: 0.14 to 0.15 Qwen3 0.6B and 1.7B (A100, 0.9.1, "
    "tenstorrent/tt-inference-server#340; 0.08 to 0.12 beneath their prompts), 0.175 gpt-oss 20B on B200 and H200 alike (2025-08, sariekr/gpu_conc), 0.10 at most QwQ 32B on eight H200 (0.8.5, "
    "vllm-project/vllm#18725), 0.095 Llama 3.1 70B on eight MI300X (0.8.5, AMD's pages of 2025); 0.12 for OPT 125M with all of a step (H100, vllm-project/vllm#10733); beside a GeForce three and a half "
    "times as long: 0.35 to 0.46 on RTX 4090 (0.8.5, io.net's 29 loads); a slow server takes as long: 0.38 for Qwen3-Coder 30B (H100, vllm-project/vllm#25444)"
)

_V0_HOST = (
    "0.1 ms of a sequence: scheduler, sampler, detokenizer and workers are one Python loop, which takes 62 % of a loaded step (0.5.3, vLLM's post on 0.6.0); 0.04 to 0.2 "
    "in 20 throughputs of 0.5.4 and 0.6.0 on one to eight A100 and H100 (LambdaLabsML/vllm-benchmark, 2024-09), the most beside A100, whose hosts are older"
)
_BLOCKS = "norms and activations are fused with rounding by scales of tensors and tokens (FUSED_OPS of vllm.compilation.fusion, 0.11), not by those of blocks"

FIRST = (
    Engine(
        name="vllm",
        label="vLLM",
        eager_launches=EAGER,
        rounds_blocks_apart=True,
        compute_capability=(7, 0),
        most_sequences=256,
        launches_per_layer=EAGER,
        graph_context=8192,
        interleaves_stages=True,
        kernels_per_layer=11,
        release="before 0.8 (V0)",
        host_step_s=3.0e-3,
        host_sequence_s=100e-6,
        context_bytes=1.4 * GIB,
        communicator_bytes=2.1 * GIB,
        slack=0.02,
        cache_block_tokens=16,
        pool_fraction=0.9,
        prompts_first=False,
        reserves_output=False,
        fused_elementwise=True,
        waiting_prompts=2.5,
        context_source="0.5 GiB: CUDA context is 0.3-0.6 GB (driver 535 and later); 0.9 GiB of CUDA graphs and libraries: an assumption, on the safe side of 0.27 GiB outside torch at TP 1 with vLLM 0.19 (llm-d planner accuracy report)",
        communicator_source="2.1 GiB outside torch at TP >= 2 with vLLM 0.19 (llm-d planner accuracy report)",
        source="V0: a prompt is one forward pass; gpu_memory_utilization 0.9 and max_seq_len_to_capture 8192 by default: longer contexts and prompts run "
        f"without CUDA graphs; {_EAGER}; {_BLOCKS}; prompts that wait for each other: of 1.5 to 3.25, what meets both sources of loops best, each of which "
        f"agrees without the other (InferenceX, AIConfigurator's silicon data; 2026-11-23); {_V0_HOST}",
    ),
    Engine(
        name="sglang",
        label="SGLang",
        eager_launches=EAGER,
        launches_per_layer=EAGER,
        routing_launches=130.0,
        latent_launches=70.0,
        state_slots=3,
        graph_context=math.inf,
        rounds_apart=True,
        compute_capability=(7, 5),
        interleaves_stages=True,
        kernels_per_layer=11,
        host_step_s=1.0e-3,
        host_sequence_s=3e-6,
        context_bytes=1.4 * GIB,
        communicator_bytes=2.1 * GIB,
        slack=0.02,
        pool_fraction=0.88,
        prefill_chunk=8192,
        reserves_output=False,
        fused_elementwise=True,
        context_source="as vLLM, which builds on the same libraries: an assumption",
        communicator_source="as vLLM, which builds on the same libraries: an assumption",
        most_sequences=2048,
        release="before 0.5.10",
        source="max_running_requests from 2048 on, mem_fraction_static 0.88, chunked_prefill_size 8192, no mixed chunks: SGLang's defaults on 80 GB parts; three states of recurrences a request (max_running_requests is at most max_mamba_cache_size // 3, no_buffer); a kernel of its own rounds the inputs of every FP8 product (sgl-project/sglang issue 31504); it schedules a step beside the one before: "
        "host time: scripts/calibration/fit_host_step.py on all published loops (2026-11-23: 1.03 ms and 3 µs), which Qwen3 0.6B alone on H20 (2.2 to 2.4 ms "
        "a token, Qwen's speed benchmark) and DeepSeek R1 on H200 (InferenceX) agree with; prompts are launched operator by operator: dense layers as vLLM's, "
        "1.0 ms a layer of Qwen3 235B (0.099 s for 610 tokens on eight B200, its cookbook of 2025-12), 1.35 of DeepSeek V3 with latent attention, whose pass of one new token takes "
        "82.6 ms, and 23 as a CUDA graph (sgl-project/sglang#12160)",
    ),
    Engine(
        name="tensorrt-llm",
        label="TensorRT-LLM",
        compute_capability=(8, 0),
        interleaves_stages=True,
        kernels_per_layer=9,
        host_step_s=0.1e-3,
        context_bytes=1.4 * GIB,
        communicator_bytes=1.5 * GIB,
        slack=0.0,
        rounds_apart=True,
        fp8_cache=True,
        most_sequences=2048,
        release="before 1.0 (compiled engine)",
        latent_as="tensorrt-llm@1.0",
        mixed_launches_per_layer=90,
        mixed_factor=1.15,
        cache_block_tokens=32,
        pool_fraction=0.9,
        pool_of_free=1,
        prefill_chunk=8192,
        prompts_first=False,
        fused_elementwise=True,
        context_source="as vLLM: an assumption",
        communicator_source="as vLLM without its custom all-reduce: an assumption",
        source="DeepSeek V3 and its like run in its PyTorch backend (examples/models/core/deepseek_v3), whose record is that of 1.0; free_gpu_memory_fraction 0.9, max_num_tokens 8192, max_batch_size 2048, guaranteed no eviction: TensorRT-LLM's defaults; "
        "checkpoints of its quantiser keep the cache of an FP8 model in FP8, too (kv_cache_quant_algo); an engine built by TensorRT is launched "
        "by C++: half of what PyTorch takes for a mixed iteration, between the first tokens (a quarter) and the times between tokens (all of it) of 36 "
        "published loads of one release, 0.14, on H100; host time: scripts/calibration/fit_host_step.py on 356 published loops (2026-11-21) of one GPU "
        "model and release 1.0",
    ),
    Engine(
        name="llama.cpp",
        label="llama.cpp",
        release="before b1842 (2024-01)",
        kernels_per_layer=40,
        kernels_by_clock=1.0,
        host_step_s=0.2e-3,
        context_bytes=0.5 * GIB,
        communicator_bytes=0.2 * GIB,
        slack=0.0,
        eager_attention=True,
        unpacks=True,
        fp32_between=True,
        fp16_accumulate=True,
        computes_on_host=True,
        read_per_cycle=6.5,
        hbm_share=0.66,
        hop_s=0.13e-3,
        pipelined_prompt=0.8,
        divided_product_s=15e-6,
        stores={"mxfp4": "mxfp4_moe", "mxfp4-fp8": "mxfp4_moe", "fp8": "q8_0"},
        prefill_chunk=512,
        prompts_first=False,
        fused_elementwise=True,
        communicator_source="copies between GPUs alone: an assumption",
        slack_source="its own pools, sized once",
        source="rows of every matrix are divided among GPUs until b1842 (--split-mode row after it): by hand from 17 published rates of Llama 2 70B and Code Llama 34B on two to eight A100, A10G and RTX 4090 "
        "over PCIe (mlc-ai/llm-perf-bench, 2023), met within 25 %; ggml CUDA graphs since 2024-05; n_ubatch defaults to 512; kernels, hops and bytes a cycle: by hand from 304 published rates of Llama 3 on A100, RTX 3090, 4090 and A6000 (llama-bench, 2024-05), of which 8B and 70B models together tell 85 µs a layer on each GPU and 6.5 (16 bit) and 7.4 bytes (4 bit) on the A100, the weights' share of GDDR's rate of 84 to 92 %; HBM share: the A100's, for parts whose cycles are not known; overlap of chunks: scripts/calibration/fit_engines.py on 54 of them (2026-11-21)",
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
        slack_source="an assumption: blocks are allocated once",
        source="torch.compile with CUDA graphs: four products, attention and fused remainders a layer",
    ),
    Engine(
        name=GENERIC,
        label="an engine that is not named",
        interleaves_stages=True,
        kernels_per_layer=11,
        host_step_s=1.0e-3,
        context_bytes=0.5 * GIB,
        communicator_bytes=1.0 * GIB,
        slack=0.02,
        unpacks=True,
        pool_fraction=0.9,
        prefill_chunk=8192,
        prompts_first=False,
        fused_elementwise=True,
        source=f"where no engine was named: fused kernels replayed as CUDA graphs; 1 ms a step: LMDeploy's, between ExLlama, gpt-fast, llama.cpp and TensorRT-LLM (0.1 to 0.3) and FasterTransformer and vLLM before 0.8 (2 to 3); {CONTEXT}; a tenth of the GPU is left alone",
    ),
)

_BY_NAME = {engine.name: engine for engine in FIRST}
_V1 = replace(
    _BY_NAME["vllm"],
    since=(0, 8),
    released="2025-03",
    release="0.8 to 0.10",
    graph_context=0.0,
    mxfp4_multiple=128,
    sampler_bytes=36,
    launches_per_layer=PIECES,
    geforce_launches=3.5,
    front_end_s=6e-3,
    host_step_s=0.3e-3,
    host_sequence_s=36e-6,
    prefill_chunk=8192,
    most_sequences=1024,
    small_sequences=256,
    small_chunk=2048,
    source="max_num_seqs 1024 and max_num_batched_tokens 8192 (256 and 2048 on GPUs below 70 GiB and on A100; vllm/engine/arg_utils.py), gpu_memory_utilization 0.9 are vLLM V1's defaults; host time: "
    "scripts/calibration/fit_host_step.py on 130 published loops (2026-11-21) of up to 128 requests on one GPU model, those of release 0.12 alone show "
    "39 µs a sequence; front end: as measured for 0.15 (its server and its engine are two processes from 0.8 on), which first tokens of 0.9 on A100 and 0.11 on RTX 4090 "
    "and AIConfigurator's silicon data agree with; CUDA graphs of the pieces between attention alone, which the host launches one by one; "
    "36 B a logit in its sampler: 16 bit, FP32, sorted values and 64-bit indices, and as much again to sort (1.25 GB of 256 · 131,072 in "
    f"vllm-project/vllm#32558); {_PIECES}",
)
_V1_GRAPHS = replace(
    _V1,
    since=(0, 11),
    released="2025-10",
    release="0.11.0",
    graph_context=math.inf,
    source="as 0.8; from 0.11 on whole steps of decoding are CUDA graphs, and prompts the pieces that they were (FULL_AND_PIECEWISE, vllm-project/vllm#25444)",
)
_V1_BLOCKS = replace(
    _V1_GRAPHS,
    since=(0, 11, 1),
    released="2025-11",
    release="0.11.1 to 0.13",
    expert_block=128,
    source="as 0.11.0; from 0.11.1 on decoding steps of experts in FP8, too, are DeepGEMM's, whose blocks of 128 rows are filled up: its scales in E8M0, the default on "
    "Hopper since vllm-project/vllm#26197, leave out the choice of Triton for few tokens (TritonOrDeepGemmExperts)",
)
_V1_ASYNC = replace(
    _V1_GRAPHS,
    since=(0, 14),
    released="2026-01",
    release="0.14 to 0.16",
    host_sequence_s=3.5e-6,
    late_steps=1.0,
    source="as V1; from 0.14 on a step is scheduled beside the one before (async scheduling by default): host time of a sequence by the published "
    "loops of a release of 2026 (3 µs); a token is handed over while the next step runs",
)
_V1_FILTERED = replace(
    _V1_ASYNC,
    since=(0, 17),
    released="2026-03",
    release="0.17 to 0.19",
    sampler_bytes=14,
    source="as 0.14; from 0.17 on logits are filtered without sorting them (vllm-project/vllm#33538, its release by the date of the change): 16 bit, FP32, probabilities and noise",
)
_V1_POOL = replace(
    _V1_FILTERED,
    since=(0, 20),
    released="2026-04",
    release="0.20 to 0.27",
    pool_fraction=0.92,
    source="as 0.14; gpu_memory_utilization 0.92 by default (vllm/config/cache.py of 0.20.0; 0.9 in 0.19.0)",
)
_LAYERS = replace(
    _BY_NAME["llama.cpp"],
    since=(1842,),
    released="2024-01",
    release="b1842 to b3199",
    layer_split=True,
    source=f"{_BY_NAME['llama.cpp'].source}; whole layers on each GPU by default (ggml-org/llama.cpp#4766)",
)
_MMQ = replace(
    _LAYERS,
    since=(3200,),
    released="2024-06",
    release="b3200 to b6324",
    int8_per_cycle=450,
    source=f"{_LAYERS.source}; packed weights by INT8 tensor cores (ggml-org/llama.cpp#7676, #8062): between what scripts/calibration/fit_engines.py finds on 11 published prompts of Qwen2.5 7B on GB10 (421) and what published prompts of an 8B model take on RTX 3090 and 4090 (410, 500)",
)
_FUSED = replace(
    _MMQ,
    since=(6325,),
    released="2025-08",
    release="b6325 to b8862",
    kernels_per_layer=18,
    eager_attention=False,
    expert_tile=128,
    source=f"{_MMQ.source}; one product for all experts, whose tiles are as wide as the tokens of the pass, 128 at most (#15525; mul_mat_q_case in mmq.cuh, on NVIDIA's parts still so "
    "in #26977 of 2026-08); flash attention where a kernel exists (-fa auto, ggml-org/llama.cpp#15434); additions, norms and rotation fused (#15631, #16884); "
    "kernels by hand: between RTX PRO 6000 of 2025-09 (37 µs a layer beside the weights, by llama-bench of 7B and 70B) and server parts, which take longer",
)
LATER = (
    _V1,
    _V1_GRAPHS,
    _V1_BLOCKS,
    _V1_ASYNC,
    _V1_FILTERED,
    _V1_POOL,
    replace(
        _V1_POOL,
        since=(0, 28),
        released="2026-08",
        release="0.28 and later",
        huge_chunk=16384,
        source="as 0.20; 16,384 prompt tokens in one pass on GPUs of 160 GiB or more (vllm/engine/arg_utils.py of 0.28.0 and 0.33.0, "
        "vllm-project/vllm#51726)",
    ),
    replace(
        _BY_NAME["sglang"],
        since=(0, 5, 10),
        released="2026-04",
        release="0.5.10 and later",
        launches_per_layer=PIECES,
        routing_launches=0.0,
        latent_launches=0.0,
        state_slots=5,
        source=f"{_BY_NAME['sglang'].source}; from 0.5.10 on (release notes) prompts are CUDA graphs of the pieces between attention: "
        "launches as of vLLM's pieces, an assumption; two more states of a request, which mamba_scheduler_strategy extra_buffer takes: in what release it became usual is not known, "
        "0.5.15 and 0.5.16 admit that few",
    ),
    replace(
        _BY_NAME["tensorrt-llm"],
        since=(1,),
        released="2025-09",
        release="1.0 and later",
        launches_per_layer=120,
        eager_launches=120,
        latent_launches=300,
        graph_context=math.inf,
        mixed_launches_per_layer=120,
        doubled_graphs=128,
        permutes_tokens=1,
        host_sequence_s=4e-6,
        source="as before; from 1.0 on PyTorch runs the model (TensorRT-LLM's release notes of 1.0: the PyTorch backend is the default), with CUDA graphs of "
        "decoding alone, unless piecewise ones are asked for; mixed iterations: of 110, 120, 140 and 180 the one that meets published loops "
        "of Hopper parts best (InferenceX, AIConfigurator's silicon data; 2026-11-23); host time of a sequence as of other engines in Python: 2,048 at once of "
        "narrow mixtures are 40 % slower than without it (perf-overview of 1.1; that of 1.0, not fitted to, agrees); graphs of every "
        "eighth number up to 128 and of powers of two beyond, with padding to the next (CudaGraphConfig of 1.0 and 1.1 where enable_padding is set, as "
        "trtllm-bench and published recipes do); prompts of latent attention: 2.1 ms a layer with all launches. DeepSeek R1 takes 0.12 to 0.17 s for 1,600 tokens on H200 and "
        "B200 alike (NVIDIA/TensorRT-LLM#5929), which ask for 240 to 400 further launches, and prompts of 922 tokens in InferenceX for 400",
    ),
    _LAYERS,
    _MMQ,
    _FUSED,
    replace(
        _FUSED,
        since=(8863,),
        released="2026-04",
        release="b8863 and later",
        divided_product_s=0.0,
        source=f"{_FUSED.source}; tensor parallelism is --split-mode tensor, by collectives, in place of rows (ggml-org/llama.cpp#19378)",
    ),
)
