"""`trtllm-bench throughput`: its --report_json, or the text it prints: engine, layout, requests and performance.

Keys and lines by tensorrt_llm/bench/dataclasses/reporting.py of TensorRT-LLM 1.2 (https://github.com/NVIDIA/TensorRT-LLM, read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

from planner.observe.results.result import Contents, Reader, Result, known, load, number, number_or_text, stated, whole

MS = 1e-3
DTYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
KV_DTYPES = {"FP8": "fp8", "INT8": "int8"}
WEIGHTS = {"FP8": "fp8", "NVFP4": "nvfp4", "W4A16_AWQ": "awq", "W4A16_GPTQ": "gptq-int4"}
"""Quantisation algorithm -> storage format; the user is asked for any other."""


PRINTED = {
    "Model": ("engine", "model"),
    "TensorRT-LLM Version": ("engine", "version"),
    "Dtype": ("engine", "dtype"),
    "KV Cache Dtype": ("engine", "kv_cache_dtype"),
    "Quantization": ("engine", "quantization"),
    "TP Size": ("world_info", "tp_size"),
    "PP Size": ("world_info", "pp_size"),
    "EP Size": ("world_info", "ep_size"),
    "Number of requests": ("request_info", "num_requests"),
    "Number of concurrent requests": ("request_info", "avg_num_concurrent_requests"),
    "Average Input Length (tokens)": ("request_info", "avg_input_length"),
    "Average Output Length (tokens)": ("request_info", "avg_output_length"),
    "Request Throughput (req/sec)": ("performance", "request_throughput_req_s"),
    "Total Output Throughput (tokens/sec)": ("performance", "system_output_throughput_tok_s"),
    "Average request latency (ms)": ("performance", "avg_request_latency_ms"),
    "Average time-to-first-token [TTFT] (ms)": ("streaming_metrics", "avg_ttft_ms"),
    "Average time-per-output-token [TPOT] (ms)": ("streaming_metrics", "avg_tpot_ms"),
}
"""A line of the printed report -> its place in the JSON report."""
PARTS = ("engine", "world_info", "request_info", "performance")
HEADINGS = ("= REQUEST DETAILS", "= PERFORMANCE OVERVIEW")


def _read(contents: Contents) -> list[Result]:
    return [_result(one) for one in (contents.objects if contents.is_json else [_printed(contents)])]


def _printed(contents: Contents) -> dict[str, Any]:
    """Printed report in the form of the JSON report; the last one of a log with several."""
    found: dict[str, Any] = {part: {} for part in PARTS}
    for line in contents.whole_lines:
        name, _, value = (part.strip() for part in line.partition(":"))
        if name in PRINTED and value != "None":
            part, key = PRINTED[name]
            found.setdefault(part, {})[key] = number_or_text(value)
    return found


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
            output_tokens=_lengths(number(requests, "avg_output_length")),
        )
        | load(None, at_once, number(requests, "num_requests")),
        seen=known(
            ttft_s=number(streaming, "avg_ttft_ms", scale=MS),
            tpot_s=number(streaming, "avg_tpot_ms", scale=MS),
            request_s=number(performance, "avg_request_latency_ms", scale=MS),
            output_tokens_per_s=number(performance, "system_output_throughput_tok_s"),
            requests_per_s=number(performance, "request_throughput_req_s"),
        ),
        notes=(f"a draft model was used: {one['decoding_stats'].get('mode')}",)
        if isinstance(one.get("decoding_stats"), dict)
        else (),
    )


def _lengths(mean: float | None) -> int | dict[str, float] | None:
    """Tokens of answers, which are all equal where their mean is a whole number, as in the data set that the tool prepares."""
    return {"mean": mean, "p50": mean} if mean and mean.is_integer() else whole(mean)


def _recognises(contents: Contents) -> bool:
    if not contents.is_json:
        return all(heading in contents.text for heading in HEADINGS)
    return contents.have(*PARTS) and all(isinstance(one[part], dict) for one in contents.objects for part in PARTS)


READER = Reader("trtllm-bench", _recognises, _read, "the report of trtllm-bench, printed or --report_json")
