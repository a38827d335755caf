"""`llama-bench -o json|jsonl|csv|md`: prompt processing (pp) and generation (tg) in tokens/s of one model on one machine.

Columns by https://github.com/ggml-org/llama.cpp/blob/master/tools/llama-bench/README.md (read 2026-11-22).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any

from planner.errors import Problem, UserError
from planner.observe.results.result import Contents, Reader, Result, known, number, number_or_text, stated

FILE_TYPES = {"f32": "fp32", "f16": "fp16", "bf16": "bf16", "q8_0": "q8_0", "q4_0": "q4_0"}
"""Words of a model's type in GGUF -> storage format; K-quants keep their own name, in the planner's spelling."""
CACHE_TYPES = {"f32": "fp32", "f16": "fp16", "bf16": "bf16", "q8_0": "int8", "q4_0": "int4"}
TEST = re.compile(r"(?P<kind>pp|tg)\s*(?P<tokens>\d+)(?:\s*@\s*d\s*(?P<depth>\d+))?")
RATE = re.compile(r"([\d.]+)\s*±")
ALL_LAYERS = 99


def _read(contents: Contents) -> list[Result]:
    found = [result for row in _rows(contents) if (result := _result(row)) is not None]
    if not found:
        raise UserError(Problem(contents.where, "", "has no row of a prompt (pp) or a generation (tg) alone, with its tokens/s."))
    return found


def _rows(contents: Contents) -> Iterator[dict[str, Any]]:
    """Every row with the names of the JSON form."""
    if contents.is_json:
        yield from contents.objects
    elif _is_markdown(contents):
        yield from _markdown(contents)
    else:
        for row in csv.DictReader(contents.lines):
            if None not in row.values():  # a row that was cut off has fewer cells than the header
                yield {name: number_or_text(text) for name, text in row.items() if name}


def _markdown(contents: Contents) -> Iterator[dict[str, Any]]:
    heads: list[str] = []
    for line in contents.lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "test" in cells and "t/s" in cells:
            heads = cells
            continue
        row = dict(zip(heads, cells, strict=False))
        test, rate = TEST.fullmatch(row.get("test", "")), RATE.match(row.get("t/s", ""))
        if test and rate:
            tokens = float(test["tokens"])
            layers = row.get("ngl", "")
            yield {
                "model_type": row.get("model", ""),
                "backends": row.get("backend", ""),
                "n_gpu_layers": number_or_text(layers) if layers else None,
                "n_prompt": tokens if test["kind"] == "pp" else 0.0,
                "n_gen": tokens if test["kind"] == "tg" else 0.0,
                "n_depth": float(test["depth"] or 0),
                "avg_ts": float(rate[1]),
            }


def _result(row: Mapping[str, Any]) -> Result | None:
    prompt, generated = number(row, "n_prompt") or 0.0, number(row, "n_gen") or 0.0
    rate, depth = number(row, "avg_ts"), number(row, "n_depth") or 0.0
    if not rate or bool(prompt) == bool(generated):  # -pg mixes both in one figure
        return None
    settings = {"engine": "llama.cpp", "batch": 1} | _model(row) | _machine(row)
    if prompt:
        lengths = {"task": "prefill", "input_tokens": round(prompt + depth), "output_tokens": 1}
        lengths |= {"prefix_tokens": round(depth)} if depth else {}
        seen = known(prefill_s=prompt / rate)
    else:
        lengths = {"task": "generate", "input_tokens": max(1, round(depth)), "output_tokens": round(generated)}
        seen = known(decode_tokens_per_s=rate)
    return Result(
        tool="llama-bench",
        name=(f"pp{prompt:.0f}" if prompt else f"tg{generated:.0f}") + (f" @ d{depth:.0f}" if depth else ""),
        settings=settings | lengths,
        seen=seen,
        taken_at=str(row.get("test_time") or ""),
        notes=("layers were left on the CPU",) if 0 <= (number(row, "n_gpu_layers") or -1) < ALL_LAYERS else (),
    )


def _model(row: Mapping[str, Any]) -> dict[str, Any]:
    """Storage format from the file's type; the user has to name the architecture, because 'qwen2 7B' matches several."""
    words = str(row.get("model_type") or "").lower().split()
    stored = next((FILE_TYPES.get(word, word) for word in reversed(words) if re.fullmatch(r"(i?q\d\w*|b?f\d\d)", word)), None)
    if stored is not None and stored.endswith("_k"):
        size = next((word[0] for word in ("small", "medium", "large") if word in words), None)
        stored = f"{stored}_{size}" if size else stored
    return stated(weight_dtype=stored, kv_dtype=CACHE_TYPES.get(str(row.get("type_k") or "")))


def _machine(row: Mapping[str, Any]) -> dict[str, Any]:
    """The GPU where the file names one, and the number: llama-bench splits layers over all of them."""
    names = [name.strip() for name in str(row.get("gpu_info") or "").split(",") if name.strip()]
    if str(row.get("backends") or "") in {"CPU", "BLAS"}:
        return stated(gpu=str(row.get("cpu_info") or ""), gpus=1)
    if not names or len(set(names)) > 1:
        return {}
    return {"gpu": names[0], "gpus": len(names)} | ({"pp": len(names), "tp": 1} if len(names) > 1 else {})


def _is_markdown(contents: Contents) -> bool:
    return any(line.startswith("|") and "t/s" in line and "test" in line for line in contents.lines)


def _recognises(contents: Contents) -> bool:
    if contents.is_json:
        return contents.have("n_prompt", "n_gen", "avg_ts")
    return _is_markdown(contents) or ("n_prompt" in contents.text[:4096] and "avg_ts" in contents.text[:4096])


READER = Reader("llama-bench", _recognises, _read, "llama-bench -o json, csv or md")
