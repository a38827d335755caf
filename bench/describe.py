"""Description of a model by its own code, measured on the meta device: no weights, no GPU, a few seconds.

`python …/bench describe` reads a Hugging Face config from standard input and writes one JSON object: parameters by layer and
kind, the shape and count of every product with a weight, FLOPs and cache bytes at three lengths of a prompt, and what a layer
keeps for its backward pass. Only code of the installed transformers is run, never that of a model's repository.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

FORMAT = 3
LENGTHS, SHORT = (256, 512, 768), (32, 64, 96)
"""Lengths of the prompts: multiples of a recurrence's chunk; shorter for a model whose code handles one token at a time."""
GROWTH = 1.2
"""Ratio of operators for twice the tokens to those of the shortest prompt above which the code loops over tokens."""
ROUTERS = {"gate", "router", "gating"}


def identity(tensor: Any) -> int:
    """Identity of the memory behind a tensor; views of one share it."""
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001  # the address is 0 for all of the meta device


def hooked(model: Any, path: list[str], ran: set[str]) -> list[Any]:
    """Hooks that keep in `path` the names of the modules that are running, and in `ran` those that have."""

    def entered(name: str) -> None:
        path.append(name)
        ran.add(name)

    def left(*_: Any) -> None:
        path.pop()

    hooks = []
    for name, module in model.named_modules():
        hooks.append(module.register_forward_pre_hook(lambda *_, name=name: entered(name)))
        hooks.append(module.register_forward_hook(left, always_call=True))
    return hooks


class Trace:
    """Products of one pass, by the module that makes them."""

    def __init__(self, model: Any, storages: dict[int, str]) -> None:
        self.storages = storages
        self.path: list[str] = [""]
        self.weights: dict[str, Counter[tuple[str, int, int]]] = defaultdict(Counter)
        """Module -> (parameter, inputs, outputs) of its products with weights, and their FLOPs."""
        self.expert_flops: Counter[str] = Counter()
        self.flops: Counter[str] = Counter()
        """Module -> FLOPs of products of activations, of convolutions too."""
        self.scores: dict[str, list[tuple[int, ...]]] = defaultdict(list)
        """Module -> (batch, m, n, k) of products of activations."""
        self.total = self.operators = 0
        self.used: set[str] = set()
        self.ran: set[str] = set()
        """Modules that ran."""
        self.hooks = hooked(model, self.path, self.ran)

    def take(self, packet: Any, args: Any, flops: int) -> None:
        """Record one product."""
        where = self.path[-1]
        if "rotary" in where or not flops:
            return
        self.total += flops
        operands = [one for one in args if hasattr(one, "untyped_storage")]
        named = [(one, self.storages.get(identity(one))) for one in operands]
        stored = [(one, name) for one, name in named if name and one.dim() > 1]
        matrix, weight = max(stored, key=lambda pair: int(pair[0].numel()), default=(None, None))
        if weight:
            self.used.add(weight)
        module = where.split(".")[-1]
        if "experts" in module and "shared" not in module:
            self.expert_flops[where] += flops
        elif matrix is not None and weight and "convolution" not in str(packet):
            inputs = int(matrix.shape[-2])
            whole = min(
                matrix.numel(), matrix.untyped_storage().nbytes() // matrix.element_size()
            )  # several of one shape are one product
            self.weights[where][weight, inputs, int(whole) // inputs] += flops
        else:
            self.flops[where] += flops
            if "bmm" in str(packet):
                first, second = operands[-2:]
                self.scores[where].append((*map(int, first.shape), int(second.shape[-1])))

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self.hooks:
            hook.remove()


def traced(model: Any, storages: dict[int, str], tokens: int, cache: Any = None, *, masked: bool = False) -> tuple[Trace, Any]:
    """One pass over `tokens` of one sequence, and the model's output; `masked`: with a mask that hides nothing."""
    import torch
    from torch.fx.experimental import _config as settings
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    trace = Trace(model, storages)

    class Mode(TorchDispatchMode):  # type: ignore[misc]  # torch is not there for every check
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.ops.aten._local_scalar_dense.default and args[0].dtype == torch.bool:  # noqa: SLF001  # no other name
                return True  # checks, and masks that hide nothing: there are no values here
            settings.meta_nonzero_assume_all_nonzero = "expert" not in trace.path[-1]  # nor what a token chose
            out = function(*args, **(kwargs or {}))
            trace.operators += 1
            packet = getattr(function, "overloadpacket", None) or function._overloadpacket  # noqa: SLF001  # its name in torch 2.13
            if packet in flop_registry:
                trace.take(packet, args, int(flop_registry[packet](*args, **(kwargs or {}), out_val=out)))
            return out

    keeps = "use_cache" in inspect.signature(model.forward).parameters
    more = ({"use_cache": True} if keeps else {}) | ({} if cache is None else {"past_key_values": cache})
    if masked:
        more["attention_mask"] = torch.ones(1, tokens, dtype=torch.long, device="meta")
    try:
        with torch.no_grad(), torch.device("meta"), Mode():
            answer = model(torch.zeros(1, tokens, dtype=torch.long), **more)
    finally:
        settings.meta_nonzero_assume_all_nonzero = False
        trace.close()
    return trace, answer


def cached(answer: Any) -> list[dict[str, Any]]:
    """Tensors of the cache: path, shape, bytes of an element, and the window of the layer."""
    import torch

    found: list[dict[str, Any]] = []
    seen: set[int] = set()

    def visit(value: Any, path: tuple[str, ...], window: int | None) -> None:
        if isinstance(value, torch.Tensor):
            if value.is_floating_point() and value.dim() > 1 and identity(value) not in seen:
                seen.add(identity(value))
                found.append({"path": path, "shape": list(value.shape), "bytes": value.element_size(), "window": window})
        elif id(value) in seen:
            return
        elif isinstance(value, (list, tuple)):
            for number, one in enumerate(value):
                visit(one, (*path, str(number)), window)
        elif isinstance(value, dict):
            for name, one in value.items():
                visit(one, (*path, str(name)), window)
        elif type(value).__module__.startswith("transformers") and not hasattr(value, "model_type"):
            seen.add(id(value))
            for name, one in vars(value).items():
                visit(one, (*path, name), getattr(value, "sliding_window", window))

    visit(next((answer[name] for name in ("past_key_values", "cache_params", "state", "mems") if name in answer), None), (), None)
    return found


def layer_of(path: str, stack: str) -> int | None:
    """Number of the layer that contains the module or parameter at `path`; None outside of layers."""
    if not path.startswith(f"{stack}."):
        return None
    number = path[len(stack) + 1 :].split(".", maxsplit=1)[0]
    return int(number) if number.isdigit() else None


def main_stack(sizes: dict[str, int]) -> str:
    """List of modules with most of the parameters."""
    stacks: Counter[str] = Counter()
    for name, size in sizes.items():
        parts = name.split(".")
        number = next((at for at, part in enumerate(parts) if part.isdigit()), None)
        if number:
            stacks[".".join(parts[:number])] += size
    return stacks.most_common(1)[0][0] if stacks else ""


def kind_of(name: str, module: Any, tensor: Any) -> str:
    """Kind of a parameter: norm, bias, embedding, expert, router, convolution, matrix, other."""
    import torch

    path, _, leaf = name.rpartition(".")
    parts = path.split(".")
    if "norm" in type(module).__name__.lower():
        return "norm"
    if any("experts" in part and "shared" not in part for part in parts):
        return "expert"
    if ROUTERS & set(parts):
        return "router"
    if isinstance(module, torch.nn.Embedding):
        return "embedding"
    if "conv" in type(module).__name__.lower() and type(module).__name__ != "Conv1D":
        return "bias" if leaf == "bias" else "convolution"
    if leaf.endswith("bias") and leaf != "dt_bias":
        return "bias"
    return "matrix" if tensor.dim() >= 2 else "other"


def built(config: dict[str, Any]) -> Any:
    """The model of `config` without memory."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    kept = {key: value for key, value in config.items() if key not in {"torch_dtype", "dtype", "auto_map", "quantization_config"}}
    described = transformers.AutoConfig.for_model(**kept)
    described._experts_implementation = "batched_mm"  # noqa: SLF001  # the other ways depend on values
    if decoder := getattr(described, "decoder_layers", None):  # a decoder without its encoder: caches are made by this number
        described.num_hidden_layers = decoder
    classes = [transformers.AutoModelForCausalLM, transformers.AutoModelForImageTextToText, transformers.AutoModelForSeq2SeqLM]
    classes.append(transformers.AutoModelForMaskedLM)
    if "text_config" in config:  # the whole, with what reads pictures
        classes = [*classes[1:], classes[0]]
    chosen = next((one for one in classes if type(described) in one._model_mapping), classes[0])  # noqa: SLF001  # no other way to ask
    with torch.device("meta"):
        return chosen.from_config(described, dtype=torch.bfloat16, attn_implementation="eager").eval()


def idle(model: Any, ran: set[str]) -> set[str]:
    """Parameters and buffers of parts that text does not use: towers and their projections. A list of layers is one part."""
    active = {".".join(parts[:depth]) for name in ran for parts in [name.split(".")] for depth in range(len(parts) + 1)}
    found = set()
    for name, _ in (*model.named_parameters(), *model.named_buffers()):
        parts = name.split(".")[:-1]
        inside = next((at for at, part in enumerate(parts) if part.isdigit()), len(parts))
        if parts and any(".".join(parts[:depth]) not in active for depth in range(1, inside + 1)):
            found.add(name)
    return found


def saved_bytes(model: Any, stack: str, storages: dict[int, str], lengths: tuple[int, ...]) -> dict[int, float] | None:
    """Layer -> bytes saved for backward per token, without scores: the part linear in the length; None: no backward pass."""
    import torch

    def at(tokens: int) -> Counter[int]:
        found: Counter[int] = Counter()
        seen: set[int] = set()
        path: list[str] = [""]
        hooks = hooked(model, path, set())

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            layer, own = layer_of(path[-1], stack), identity(tensor)
            if own not in storages and own not in seen and layer is not None:
                seen.add(own)
                kept.append(tensor)
                found[layer] += tensor.untyped_storage().nbytes()
            return tensor

        kept: list[Any] = []
        try:
            with torch.device("meta"), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                model(torch.zeros(1, tokens, dtype=torch.long))
        finally:
            for hook in hooks:
                hook.remove()
        return found

    first, second = lengths[:2]
    try:
        model.train()
        a, b = at(first), at(second)
    except Exception:  # noqa: BLE001  # whatever a model's code raises: it is described without this figure
        return None
    finally:
        model.eval()
    return {layer: (a[layer] / first * second - b[layer] / second * first) / (second - first) for layer in sorted(b)}


def lengths_within(config: Any) -> tuple[int, ...]:
    """Lengths of prompts that a model has positions for."""
    positions = next((most for name in ("max_position_embeddings", "n_positions") if (most := getattr(config, name, None))), None)
    return LENGTHS if not positions or positions > LENGTHS[-1] else tuple(positions * quarters // 4 for quarters in (1, 2, 3))


def describe(config: dict[str, Any]) -> dict[str, Any]:
    """Description of one config, as plain data."""
    import torch
    import transformers

    model = built(config)
    modules = dict(model.named_modules())
    whole = dict(model.named_parameters())
    storages = {identity(value): name for name, value in whole.items()}
    masked = False
    try:
        first = traced(model, storages, SHORT[0])[0]
    except RuntimeError:  # some code looks for padding among the tokens where it gets no mask
        masked = True
        first = traced(model, storages, SHORT[0], masked=True)[0]
    apart = idle(model, first.ran) if type(model.config).sub_configs else set()
    tensors = {name: value for name, value in whole.items() if name not in apart}
    apart = {name for name in apart if "mtp" not in name}  # layers that predict further tokens
    few = first.operators
    biases = {
        name: value.numel() for name, value in model.named_buffers() if "correction_bias" in name or name.endswith("expert_bias")
    }
    stack = main_stack({name: value.numel() for name, value in tensors.items()})
    twice = traced(model, storages, SHORT[1], masked=masked)[0].operators
    lengths = SHORT if twice > GROWTH * few else lengths_within(model.config)
    traces, caches = {}, {}
    for tokens in lengths:
        traces[tokens], answer = traced(model, storages, tokens, masked=masked)
        caches[str(tokens)] = cached(answer)  # before the decoding step, which extends it
    one = traces[lengths[0]]
    listed = [[name, kind_of(name, modules[name.rpartition(".")[0]], value), list(value.shape)] for name, value in tensors.items()]
    return {
        "format": FORMAT,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "class": type(model).__name__,
        "model_type": config.get("model_type"),
        "stack": stack,
        "corrections": sum(size for name, size in biases.items() if name not in apart),
        "encoder": "ForMaskedLM" in type(model).__name__,
        "towers": sum(value.numel() for name, value in whole.items() if name in apart)
        + sum(size for name, size in biases.items() if name in apart),
        "embedding_width": next((shape[-1] for _, kind, shape in listed if kind == "embedding"), 0),
        "tensors": listed,
        "used": sorted(one.used),
        "products": [
            [where, name, inputs, outputs, max(1, round(flops / (2 * inputs * outputs * lengths[0])))]
            for where, of in one.weights.items()
            for (name, inputs, outputs), flops in of.items()
            if flops > 2 * inputs * outputs  # not of one token, as a pooler's
        ],
        "expert_flops": dict(one.expert_flops),
        "scores": {str(tokens): dict(trace.flops) for tokens, trace in traces.items()},
        "score_shapes": dict(one.scores),
        "flops": {str(tokens): trace.total for tokens, trace in traces.items()},
        "step_flops": step_flops(model, storages, answer.get("past_key_values")),
        "caches": caches,
        "saved_bytes": None if one.expert_flops else saved_bytes(model, stack, storages, lengths),
    }


def step_flops(model: Any, storages: dict[int, str], cache: Any) -> int | None:
    """FLOPs of a decoding step; None with a cache of recurrences only, which some versions cannot continue."""
    try:
        total: int = traced(model, storages, 1, cache)[0].total
    except ValueError:
        return None
    return total


def main() -> int:
    """Read a config, write its description; an error is written as one, with exit status 3."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    out, sys.stdout = sys.stdout, sys.stderr
    try:
        import warnings

        warnings.filterwarnings("ignore")
        found = describe(json.load(sys.stdin))
    except ImportError as missing:
        found = {"error": str(missing), "missing": missing.name}
    except Exception as error:  # noqa: BLE001  # whatever a model's code raises is what the user is told
        found = {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''}"}
    json.dump(found, out)
    out.flush()
    return 3 if "error" in found else 0
