"""One training step of PyTorch under fake tensors: which bytes live, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from fake_torch import Living, as_on_cuda, bytes_of, flash, quiet, recomputed
from memory_cases import Case
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.masking_utils import AttentionMaskInterface, eager_mask
from transformers.modeling_utils import AttentionInterface

FLASH, RECOMPUTED = "as_on_cuda", "recomputed_scores"


@dataclass
class Seen:
    """What a step held, in bytes."""

    layer: float = 0.0
    """Kept for backward by one of the middle layers."""
    head: float = 0.0
    """Kept for backward after the last layer: final norm, head, loss."""
    peak: float = 0.0
    moments: dict[str, float] = field(default_factory=dict)
    """The most held in: forward, head, last (the last layer's backward), first (the first layer's), end, step."""
    parts: dict[str, float] = field(default_factory=dict)
    """At the peak: weights, gradients, optimizer, rest."""
    saved: list[tuple[float, tuple[int, ...], torch.dtype]] = field(default_factory=list)
    """The tensors behind `layer`."""


def build(case: Case, dtype: torch.dtype) -> nn.Module:
    """The model of `case`, in training mode."""
    AttentionInterface.register(FLASH, flash)
    AttentionMaskInterface.register(FLASH, lambda *_, **__: None)
    AttentionInterface.register(RECOMPUTED, recomputed)
    AttentionMaskInterface.register(RECOMPUTED, eager_mask)
    config = AutoConfig.for_model(**case.model)
    config.use_cache = False
    stored = RECOMPUTED if case.checkpointing == "selective" else "eager"
    config._attn_implementation = FLASH if case.attention == "flash" else stored
    model: nn.Module = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model.train()


class Adapted(nn.Module):  # type: ignore[misc]  # torch is not followed
    """A frozen linear layer with a low-rank adapter, computed as `peft` does: the input is cast to the adapter's type."""

    def __init__(self, base: nn.Module, rank: int, dtype: torch.dtype) -> None:
        super().__init__()
        weight = base.weight
        inner, outer = weight.shape if type(base).__name__ == "Conv1D" else weight.shape[::-1]
        self.base = base
        self.a = nn.Linear(inner, rank, bias=False, dtype=dtype)
        self.b = nn.Linear(rank, outer, bias=False, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.base(x)
        added: torch.Tensor = result + self.b(self.a(x.to(self.a.weight.dtype))) * 2.0
        return added.to(result.dtype)


NAMES = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj", "gate": "gate_proj", "up": "up_proj", "down": "down_proj"}


def adapt(model: nn.Module, case: Case, dtype: torch.dtype) -> None:
    """Freeze `model` and put adapters on its projections."""
    model.requires_grad_(requires_grad=False)
    wanted = {NAMES[name] for name in case.targets or NAMES}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if name in wanted:
                setattr(parent, name, Adapted(child, case.rank, dtype))
    model.get_input_embeddings().register_forward_hook(lambda _m, _i, out: out.requires_grad_())


def layers_of(model: nn.Module) -> nn.ModuleList:
    """The stack of decoder layers."""
    return max((m for m in model.modules() if isinstance(m, nn.ModuleList)), key=lambda m: sum(p.numel() for p in m.parameters()))


def by_operators() -> Any:
    """torchtitan's policy for each layer: outputs of fused attention and of every second product are kept."""
    aten = torch.ops.aten
    attention = {aten._scaled_dot_product_flash_attention.default, aten._scaled_dot_product_efficient_attention.default}
    count = {True: 0, False: 0}

    def policy(context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        if operator is aten.mm.default:
            count[context.is_recompute] += 1
        kept = operator in attention or (operator is aten.mm.default and count[context.is_recompute] % 2)
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def recompute(model: nn.Module, checkpointing: str) -> None:
    """Each layer keeps its input alone ("full"), or what `by_operators` keeps, too."""
    ways: dict[str, Any] = {"context_fn": by_operators} if checkpointing == "selective-op" else {}
    for layer in layers_of(model):
        inner = layer.forward

        def forward(*args: Any, _inner: Any = inner, **kwargs: Any) -> Any:
            return checkpoint(as_on_cuda(_inner), *args, use_reentrant=False, preserve_rng_state=False, **ways, **kwargs)

        layer.forward = forward


def _added_to(main: torch.Tensor, p: torch.Tensor) -> None:
    main.add_(p.grad)
    p.grad = None


def _stepped(optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()
    optimizer.zero_grad()


class Optimizer:
    """The optimizer of a case over parameters whose gradients are theirs, or FP32 copies of them (`mixed`)."""

    def __init__(self, case: Case, trained: list[nn.Parameter]) -> None:
        self.trained = trained
        self.main: list[torch.Tensor] = []
        self.gradients: list[torch.Tensor] = []
        if case.recipe == "mixed":
            self.main = [p.detach().float().requires_grad_() for p in trained]
            self.gradients = [torch.zeros_like(p, dtype=torch.float32) for p in trained]
            for p, gradient in zip(trained, self.gradients, strict=True):
                p.register_post_accumulate_grad_hook(lambda p, g=gradient: _added_to(g, p))
        self.over = self.main or trained
        self.inner = [made for group in self._groups(case) if (made := group)]
        if case.in_backward:
            alone = {p: self._make(case, [p]) for p in trained}
            self.inner = list(alone.values())
            for p in trained:
                p.register_post_accumulate_grad_hook(lambda p: _stepped(alone[p]))

    def _groups(self, case: Case) -> Iterator[torch.optim.Optimizer]:
        if case.in_backward or case.optimizer == "none":
            return
        if case.optimizer == "muon":
            matrices = [p for p in self.over if p.ndim == 2 and max(p.shape) < 30_000]
            chosen = {id(p) for p in matrices}
            yield torch.optim.Muon(matrices)
            yield torch.optim.AdamW([p for p in self.over if id(p) not in chosen], foreach=True)
        else:
            yield self._make(case, list(self.over))

    @staticmethod
    def _make(case: Case, over: list[Any]) -> torch.optim.Optimizer:
        if case.optimizer == "adafactor":
            return torch.optim.Adafactor(over, foreach=False)
        if case.optimizer.startswith("sgd"):
            return torch.optim.SGD(over, momentum=0.9 * case.optimizer.endswith("momentum"), foreach=True)
        return torch.optim.AdamW(over, **({"fused": True} if case.fused else {"foreach": True}))

    def step(self) -> None:
        for p, gradient in zip(self.main, self.gradients, strict=True):
            p.grad = gradient
        for inner in self.inner:
            inner.step()
        for p, main in zip(self.trained, self.main, strict=False):
            p.data.copy_(main.data)
        for p in self.main:
            p.grad = None
        for gradient in self.gradients:
            gradient.zero_()
        if not self.main:
            for p in self.trained:
                p.grad = None

    def states(self) -> list[torch.Tensor]:
        kept = [v for inner in self.inner for state in inner.state.values() for v in state.values() if isinstance(v, torch.Tensor)]
        return [*kept, *(m for m in self.main)]


def chunked_loss(model: nn.Module, ids: torch.Tensor, chunks: int) -> torch.Tensor:
    """The loss of an eighth of the tokens at a time, each recomputed in its backward."""
    hidden = model.base_model(input_ids=ids).last_hidden_state
    head = model.get_output_embeddings()

    def part(h: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(head(h).float().flatten(0, 1), t.flatten(), reduction="sum")

    pieces = zip(hidden.chunk(chunks, 1), ids.chunk(chunks, 1), strict=True)
    total: torch.Tensor = sum(checkpoint(as_on_cuda(part), h, t, use_reentrant=False, preserve_rng_state=False) for h, t in pieces)
    return total / ids.numel()


def run(case: Case) -> Seen:
    """Two optimizer steps of `case`; the second, with its states there, is what is seen."""
    with quiet(), Living() as living:
        wide = case.recipe == "fp32" or (case.recipe == "amp" and not case.rank)
        dtype = torch.float32 if wide else torch.bfloat16
        model = build(case, dtype)
        if case.rank:
            adapt(model, case, torch.bfloat16 if case.recipe == "bf16" else torch.float32)
        if case.checkpointing in {"full", "selective-op"}:
            recompute(model, case.checkpointing)
        living.weights.update(p.untyped_storage() for p in model.parameters())
        living.shapes = {p.shape for p in model.parameters() if p.ndim > 1}
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = Optimizer(case, trained)
        seen, layers = Seen(), layers_of(model)
        living.split = lambda: _split(living, model, trained, optimizer)
        _mark(layers, living)
        ids = torch.zeros((case.micro_batch, case.sequence), dtype=torch.int64)
        for number in range(2):
            for _ in range(case.accumulated):
                living.moment = "forward" if number else "setup"
                _pass(case, model, ids, living, seen, layers, first=not number)
            living.moment = "step" if number else "setup"
            optimizer.step()
    seen.moments = {name: size for name, size in living.moments.items() if name != "setup"}
    seen.peak, seen.parts = living.peak, living.parts
    return seen


def _split(living: Living, model: nn.Module, trained: list[nn.Parameter], optimizer: Optimizer) -> dict[str, float]:
    weights, states = bytes_of(list(model.parameters())), bytes_of(optimizer.states())
    gradients = bytes_of(optimizer.gradients) + bytes_of([p.grad for p in trained if p.grad is not None])
    return {
        "weights": weights,
        "gradients": gradients,
        "optimizer": states,
        "rest": living.now - weights - gradients - states,
    }


def _mark(layers: nn.ModuleList, living: Living) -> None:
    """Name the moments of backward by the layer whose output's gradient has just been computed."""
    names = {0: "first", len(layers) - 1: "last"}

    def hook(number: int) -> Callable[..., None]:
        def entered(_gradient: torch.Tensor) -> None:
            if living.moment != "setup":
                living.moment = names.get(number, "middle")

        def after(_module: Any, _inputs: Any, out: Any) -> None:
            hidden = out[0] if isinstance(out, tuple) else out
            if hidden.requires_grad:
                hidden.register_hook(entered)

        return after

    def left(_gradient: torch.Tensor) -> None:
        if living.moment != "setup":
            living.moment = "end"

    def before(_module: Any, args: Any, kwargs: Any) -> None:
        hidden = args[0] if args else kwargs["hidden_states"]
        if hidden.requires_grad:
            hidden.register_hook(left)

    for number, layer in enumerate(layers):
        layer.register_forward_hook(hook(number))
    layers[0].register_forward_pre_hook(before, with_kwargs=True)


def _pass(
    case: Case, model: nn.Module, ids: torch.Tensor, living: Living, seen: Seen, layers: nn.ModuleList, *, first: bool
) -> None:
    known = {id(t.untyped_storage()) for t in (*model.parameters(), *model.buffers())}
    kept: dict[str, list[torch.Tensor]] = {"outside": [], "layer": [], "head": []}
    where = ["outside"]

    def pack(t: torch.Tensor) -> torch.Tensor:
        storage = t.untyped_storage()
        if id(storage) not in known and storage not in living.casts:
            known.add(id(storage))
            kept[where[0]].append(t.detach())
        return t

    middle, last = layers[len(layers) // 2], layers[-1]

    def at(name: str) -> Callable[..., None]:
        return lambda *_: where.__setitem__(0, name)

    hooks = [
        middle.register_forward_pre_hook(at("layer")),
        middle.register_forward_hook(at("outside")),
        last.register_forward_hook(at("head")),
    ]
    cast = torch.autocast("cpu", torch.bfloat16) if case.recipe == "amp" else nullcontext()
    watching = torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t) if first else nullcontext()
    with watching, cast:
        if case.loss == "full":
            outputs = model(input_ids=ids, labels=ids)
            loss = outputs.loss
        else:
            loss = chunked_loss(model, ids, 8)
    for item in hooks:
        item.remove()
    if first:
        seen.layer, seen.head = bytes_of(kept["layer"]), bytes_of(kept["head"])
        seen.saved = [(t.untyped_storage().nbytes(), tuple(t.shape), t.dtype) for t in kept["layer"]]
    kept.clear()
    if case.optimizer != "none":
        if not first:
            living.moment = "head"
        loss.backward()
