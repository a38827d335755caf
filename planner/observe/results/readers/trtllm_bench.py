"""`trtllm-bench throughput --report_json`: engine, machine, layout, requests and performance.

Keys by tensorrt_llm/bench/dataclasses/reporting.py of TensorRT-LLM 1.2 (https://github.com/NVIDIA/TensorRT-LLM, read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

from planner.observe.results.contents import Contents
from planner.observe.results.result import Reader, Result, known, load, number, scaled, stated, whole

MS = 1e-3
DTYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
KV_DTYPES = {"FP8": "fp8", "INT8": "int8"}
WEIGHTS = {"FP8": "fp8", "NVFP4": "nvfp4", "W4A16_AWQ": "awq", "W4A16_GPTQ": "gptq-int4"}
"""Quantisation algorithm -> storage format; any other is asked for."""


def _read(contents: Contents) -> list[Result]:
    return [_result(one) for one in contents.objects]


def _result(one: dict[str, Any]) -> Result:
    engine, world, requests = one["engine"], one["world_info"], one["request_info"]
    performance, streaming = one["performance"], one.get("streaming_metrics") or {}
    quantised, version = str(engine.get("quantization") or ""), str(engine.get("version") or "")
    at_once = number(requests, "avg_num_concurrent_requests")
    return Result(
        tool="trtllm-bench",
        name=f"{whole(at_once) or '?'} at once on average",
        settings={"task": "serve", "engine": f"tensorrt-llm@{version}" if version else "tensorrt-llm"}
        | stated(
            model=str(engine.get("model") or ""),
            gpu=str((one.get("machine") or {}).get("name") or ""),
            gpus=whole(number(world, "world_size")) or whole((number(world, "tp_size") or 0) * (number(world, "pp_size") or 1)),
            tp=whole(number(world, "tp_size")),
            pp=whole(number(world, "pp_size")),
            ep=whole(number(world, "ep_size")),
            dtype=None if quantised else DTYPES.get(str(engine.get("dtype") or "")),
            weight_dtype=WEIGHTS.get(quantised),
            kv_dtype=KV_DTYPES.get(str(engine.get("kv_cache_dtype") or "")),
            input_tokens=whole(number(requests, "avg_input_length")),
            output_tokens=whole(number(requests, "avg_output_length")),
        )
        | load(None, at_once, number(requests, "num_requests")),
        seen=known(
            ttft_s=scaled(number(streaming, "avg_ttft_ms"), MS),
            tpot_s=scaled(number(streaming, "avg_tpot_ms"), MS),
            request_s=scaled(number(performance, "avg_request_latency_ms"), MS),
            output_tokens_per_s=number(performance, "system_output_throughput_tok_s"),
            requests_per_s=number(performance, "request_throughput_req_s"),
        ),
        notes=(f"a draft was at work: {one['decoding_stats'].get('mode')}",) if isinstance(one.get("decoding_stats"), dict) else (),
    )


READER = Reader(
    "trtllm-bench",
    lambda contents: (
        contents.have("engine", "world_info", "request_info", "performance")
        and all(
            isinstance(one[key], dict)
            for one in contents.objects
            for key in ("engine", "world_info", "request_info", "performance")
        )
    ),
    _read,
    "the report of trtllm-bench --report_json",
)
