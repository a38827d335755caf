"""Memory, time and energy of steps, prompts and tokens of transformers' own models, measured on this machine's GPU.

Reads requests of `gpu-planner estimate`, one per line, and writes the evidence with which tests compare their answers
(docs/evidence/h200.md): `python scripts/measuring/steps_of_transformers.py < requests.jsonl > measured.jsonl`, with torch and transformers
in the same environment. Each request runs in a separate process, so that the memory of one does not affect another. Weights are random: no
model is fetched.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from planner.workload.models import ModelShelf  # noqa: E402  # found by the line above

WARM_UPS, STEPS = 3, 6
"""Numbers of steps before measuring, and of measured steps."""
LONG_ENOUGH_S = 1.0
"""Seconds for which a step is repeated, so that the driver's energy counter, which changes ten times a second, gives its energy."""


def built(config: dict[str, Any], request: dict[str, Any]) -> Any:
    """The model of `config` with random weights on the GPU, in the type of the request's recipe."""
    import torch
    import transformers

    kept = {key: value for key, value in config.items() if key not in {"torch_dtype", "dtype", "auto_map", "quantization_config"}}
    described = transformers.AutoConfig.for_model(**kept)
    classes = [
        transformers.AutoModelForCausalLM,
        transformers.AutoModelForImageTextToText,
        transformers.AutoModelForSeq2SeqLM,
        transformers.AutoModelForMaskedLM,
    ]
    chosen = next(one for one in classes if type(described) in one._model_mapping)  # noqa: SLF001  # no other way to ask
    kind = torch.float32 if request.get("recipe") in {"fp32", "amp"} else torch.bfloat16
    attention = "eager" if request.get("attention") == "eager" else "sdpa"
    with torch.device("cuda"):
        return chosen.from_config(described, dtype=kind, attn_implementation=attention)


def optimizer_of(model: Any, request: dict[str, Any]) -> Any:
    """PyTorch's optimizer of the request's name. Raises KeyError for another."""
    import torch

    trained = [one for one in model.parameters() if one.requires_grad]
    make: dict[str, Callable[[], Any]] = {
        "adamw": lambda: torch.optim.AdamW(trained, lr=1e-5),
        "adamw-fused": lambda: torch.optim.AdamW(trained, lr=1e-5, fused=True),
        "sgd-momentum": lambda: torch.optim.SGD(trained, lr=1e-5, momentum=0.9),
        "adafactor": lambda: torch.optim.Adafactor(trained, lr=1e-5),
    }
    return make[request["optimizer"]]()


def training_step(model: Any, request: dict[str, Any]) -> Callable[[], None]:
    """A step of one micro batch: forward, backward, optimizer, gradients dropped."""
    import torch

    if request["checkpointing"] == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    optimizer = optimizer_of(model, request)
    shape = request["micro_batch"], request["sequence"]
    tokens = torch.randint(100, model.config.get_text_config().vocab_size - 100, shape, device="cuda")
    mixed = torch.autocast("cuda", torch.bfloat16) if request["recipe"] == "amp" else contextlib.nullcontext()

    def step() -> None:
        with mixed:
            loss = (
                model(input_ids=tokens, labels=tokens, use_cache=False).loss
                if decodes
                else model(input_ids=tokens, labels=tokens).loss
            )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    decodes = "ForMaskedLM" not in type(model).__name__
    return step


def generation(model: Any, request: dict[str, Any]) -> Callable[[int], None]:
    """Greedy generation of a number of tokens after the request's prompt, for its whole batch."""
    import torch

    model.eval()
    shape = request["batch"], request["input_tokens"]
    prompt = torch.randint(100, model.config.get_text_config().vocab_size - 100, shape, device="cuda")
    model.generation_config.eos_token_id = model.generation_config.pad_token_id = None

    def generate(tokens: int) -> None:
        with torch.inference_mode():
            model.generate(
                prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False
            )

    return generate


def timed(run: Callable[[], None], warm_ups: int, times: int) -> tuple[float, float | None]:
    """Median seconds of a run, and its joules by the driver's counter over a second or more; None where it has no such counter."""
    import pynvml
    import torch

    for _ in range(warm_ups):
        run()
    torch.cuda.synchronize()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    repeats = max(2, round(LONG_ENOUGH_S / median))
    try:
        before = pynvml.nvmlDeviceGetTotalEnergyConsumption(device)
        for _ in range(repeats):
            run()
        torch.cuda.synchronize()
        return median, (pynvml.nvmlDeviceGetTotalEnergyConsumption(device) - before) / 1000 / repeats
    except pynvml.NVMLError:
        return median, None


def figures(config: dict[str, Any], request: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and values of what is measured for one request."""
    import torch

    model = built(config, request)
    torch.cuda.empty_cache()  # with tied weights, a model is built with both
    torch.cuda.reset_peak_memory_stats()
    if request["task"] in {"train", "finetune"}:
        yield "step_s", (step := timed(training_step(model, request), WARM_UPS, STEPS))[0]
        yield "step_joules", step[1]
    else:
        generate = generation(model, request)
        prompt_s, prompt_joules = timed(lambda: generate(1), 2, 5)
        whole_s, whole_joules = timed(lambda: generate(request["output_tokens"]), 1, 2)
        steps = request["output_tokens"] - 1
        yield "prompt_s", prompt_s
        yield "decode_tokens_per_s", steps / (whole_s - prompt_s)
        if prompt_joules and whole_joules:
            yield "prompt_joules", prompt_joules
            yield "decode_step_joules", (whole_joules - prompt_joules) / steps
    free, total = torch.cuda.mem_get_info()
    yield "peak_allocated_bytes", torch.cuda.max_memory_allocated()
    yield "peak_reserved_bytes", torch.cuda.max_memory_reserved()
    yield "device_used_bytes", total - free


def measured(sender: Any, config: dict[str, Any], request: dict[str, Any]) -> None:
    """The figures of one request, sent; an error as its text."""
    found: dict[str, Any] = {}
    try:
        for name, value in figures(config, request):
            found[name] = round(value, 5) if isinstance(value, float) else value
    except Exception as error:  # noqa: BLE001  # whatever a model's code raises is told, and the next request is measured
        found["error"] = f"{type(error).__name__}: {error}"[:300]
    sender.send(found)


def environment(sender: Any) -> None:
    """The GPU, its driver and the versions that ran, sent."""
    import pynvml
    import torch
    import transformers

    pynvml.nvmlInit()
    torch.zeros(1, device="cuda")
    free, total = torch.cuda.mem_get_info()
    sender.send(
        {
            "device": torch.cuda.get_device_name(),
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "taken_on": dt.datetime.now(tz=dt.UTC).date().isoformat(),
            "context_bytes": total - free - torch.cuda.memory_reserved(),
        }
    )


def apart(work: Callable[..., None], *arguments: Any) -> dict[str, Any]:
    """Figures that `work` sends from a separate process; an error where it ends without any."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=work, args=(sender, *arguments))
    process.start()
    sender.close()
    try:
        return receiver.recv()  # type: ignore[no-any-return]
    except EOFError:
        return {"error": "the process ended without an answer"}
    finally:
        process.join()


def main() -> None:
    """Measure the requests of standard input, and write one line for the machine and one for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.parse_args()
    import transformers

    transformers.logging.set_verbosity_error()
    models = ModelShelf(ROOT / "presets" / "models")
    print(json.dumps(apart(environment)), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        name = request.pop("id")
        found = apart(measured, models.config(request["model"]), request)
        print(json.dumps({"id": name, "request": request, **found}), flush=True)


if __name__ == "__main__":
    main()
