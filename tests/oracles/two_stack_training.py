"""Training steps of models of an encoder and a decoder in PyTorch: bytes that live (fake tensors), and FLOPs (meta tensors)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from golden import ORACLES, Golden, digest
from memory_cases import Case

GOLDEN = Golden("two_stack_training", ORACLES / "two_stack_training.py", ORACLES / "memory_oracle.py", ORACLES / "fake_torch.py")
T5 = {
    "model_type": "t5", "vocab_size": 32128, "d_model": 1024, "d_kv": 64, "d_ff": 2816, "num_layers": 4, "num_decoder_layers": 3,
    "num_heads": 16, "feed_forward_proj": "gated-gelu",
}  # fmt: skip
FIRST_T5 = T5 | {"d_ff": 4096, "feed_forward_proj": "relu"}
BART = {
    "model_type": "bart", "vocab_size": 50265, "d_model": 1024, "encoder_layers": 4, "decoder_layers": 3, "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096, "encoder_attention_heads": 16, "decoder_attention_heads": 16, "max_position_embeddings": 2048,
}  # fmt: skip
MBART, PEGASUS = BART | {"model_type": "mbart"}, BART | {"model_type": "pegasus", "activation_function": "relu"}


@dataclass(frozen=True, kw_only=True)
class TwoStackCase(Case):
    """A step of a model whose encoder reads `source` tokens of every sequence; `sequence` are those of its decoder."""

    source: int = 512

    @property
    def name(self) -> str:
        """The family, recipe and lengths, and a digest of the whole."""
        said = f"{self.recipe} {self.attention} {self.checkpointing} {self.micro_batch}·{self.source}·{self.sequence}"
        return f"{self.model['model_type']} {said} {digest(repr(self))}"


def cases() -> Iterator[TwoStackCase]:
    """Both lines through the recipes, with prompts shorter and longer than answers."""
    for model in (T5, BART):
        for recipe in ("bf16", "amp", "fp32", "mixed"):
            for checkpointing in ("none", "full"):
                yield TwoStackCase(
                    model=model, recipe=recipe, checkpointing=checkpointing, micro_batch=8, sequence=512, source=1024
                )
        for checkpointing in ("none", "selective"):
            yield TwoStackCase(model=model, attention="eager", checkpointing=checkpointing, micro_batch=4, sequence=512, source=768)
        yield TwoStackCase(model=model, micro_batch=16, sequence=128, source=1024)
        yield TwoStackCase(model=model, micro_batch=16, sequence=1024, source=128)
        yield TwoStackCase(model=model, micro_batch=1, sequence=128, source=128)
        yield TwoStackCase(model=model, micro_batch=4, accumulated=4)
    for model in (FIRST_T5, MBART, PEGASUS):
        for recipe in ("bf16", "amp"):
            yield TwoStackCase(model=model, recipe=recipe, micro_batch=8, sequence=256, source=512)


def compute(case: TwoStackCase) -> dict[str, float]:
    """What a step of `case` holds and multiplies."""
    return held(case) | flops(case)


def build(case: TwoStackCase, dtype: Any) -> Any:
    """The model of `case`, in training mode; attention by CUDA's kernels, which take a bias of the scores as it is."""
    import torch
    from fake_torch import flash, recomputed
    from memory_oracle import FLASH, RECOMPUTED
    from transformers import AutoModelForSeq2SeqLM
    from transformers.masking_utils import AttentionMaskInterface, eager_mask
    from transformers.modeling_utils import AttentionInterface

    def with_bias(module: Any, query: Any, key: Any, value: Any, mask: Any, **named: Any) -> Any:
        bias = named.pop("position_bias", None)
        if bias is None:
            return flash(module, query, key, value, mask, **named)
        if torch.is_autocast_enabled("cpu"):
            query, key, value, bias = (t.to(torch.get_autocast_dtype("cpu")) for t in (query, key, value, bias))
        bias = bias.expand(query.shape[0], -1, -1, -1)
        asked = (named.get("dropout", 0.0), False)
        out = torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, bias, True, *asked, scale=1.0)[0]
        return out.transpose(1, 2).contiguous(), None

    def again(module: Any, query: Any, key: Any, value: Any, mask: Any, **named: Any) -> Any:
        bias = named.pop("position_bias", None)
        return recomputed(module, query, key, value, 0.0 if bias is None else bias, **named)

    AttentionInterface.register(FLASH, with_bias)
    AttentionMaskInterface.register(FLASH, lambda *_, **__: None)
    AttentionInterface.register(RECOMPUTED, again)
    AttentionMaskInterface.register(RECOMPUTED, eager_mask)
    config = config_of(case)
    stored = RECOMPUTED if case.checkpointing == "selective" else "eager"
    config._attn_implementation = FLASH if case.attention == "flash" else stored
    return AutoModelForSeq2SeqLM.from_config(config, dtype=dtype).train()


def config_of(case: TwoStackCase) -> Any:
    """The library's config of `case`."""
    from transformers import AutoConfig

    config = AutoConfig.for_model(**case.model)
    config.use_cache, config.decoder_start_token_id = False, 0
    return config


def stacks_of(model: Any) -> tuple[Any, Any]:
    """(layers of the encoder, layers of the decoder)."""
    inner = model.model if hasattr(model, "model") else model
    first, second = inner.encoder, inner.decoder
    return (first.block, second.block) if hasattr(first, "block") else (first.layers, second.layers)


def held(case: TwoStackCase) -> dict[str, float]:
    """Bytes that a layer of either stack keeps for backward, and the most that lives in a step."""
    import torch
    from fake_torch import Living, as_on_cuda, quiet
    from memory_oracle import Optimizer
    from torch.utils.checkpoint import checkpoint

    def again(inner: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **named: checkpoint(as_on_cuda(inner), *args, use_reentrant=False, preserve_rng_state=False, **named)

    with quiet(), Living() as living:
        wide = case.recipe in {"fp32", "amp"}
        model = build(case, torch.float32 if wide else torch.bfloat16)
        stacks = stacks_of(model)
        if case.checkpointing == "full":
            for layer in (*stacks[0], *stacks[1]):
                layer.forward = again(layer.forward)
        living.weights.update(p.untyped_storage() for p in model.parameters())
        living.shapes = {p.shape for p in model.parameters() if p.ndim > 1}
        trained = list(model.parameters())
        optimizer = Optimizer(case, trained)
        ids = torch.zeros((case.micro_batch, case.source), dtype=torch.int64)
        words = torch.zeros((case.micro_batch, case.sequence), dtype=torch.int64)
        kept: dict[str, float] = {}
        for number in range(2):
            for _ in range(case.accumulated):
                living.moment = "forward" if number else "setup"
                with torch.autocast("cpu", torch.bfloat16) if case.recipe == "amp" else nullcontext():
                    outputs = _forward(model, ids, words, stacks, {} if number else kept, living)
                living.moment = "last" if number else "setup"
                outputs.loss.backward()
                del outputs
            living.moment = "step" if number else "setup"
            optimizer.step()
    return kept | {"peak": living.peak}


def _forward(model: Any, ids: Any, words: Any, stacks: tuple[Any, Any], kept: dict[str, float], living: Any) -> Any:
    """Loss and logits; in `kept` the bytes of the storages that the middle layer of either stack saves."""
    import torch
    from fake_torch import bytes_of

    known = {id(t.untyped_storage()) for t in (*model.parameters(), *model.buffers())}
    found: dict[str, list[Any]] = {"outside": [], "encoder": [], "decoder": []}
    where = ["outside"]

    def pack(t: Any) -> Any:
        storage = t.untyped_storage()
        if id(storage) not in known and storage not in living.casts:
            known.add(id(storage))
            found[where[0]].append(t.detach())
        return t

    def at(name: str) -> Callable[..., None]:
        return lambda *_: where.__setitem__(0, name)

    hooks = []
    for name, layers in zip(("encoder", "decoder"), stacks, strict=True):
        middle = layers[len(layers) // 2]
        hooks += [middle.register_forward_pre_hook(at(name)), middle.register_forward_hook(at("outside"))]
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        outputs = model(input_ids=ids, labels=words)
    for item in hooks:
        item.remove()
    kept |= {name: bytes_of(found[name]) for name in ("encoder", "decoder")}
    found.clear()
    return outputs


def flops(case: TwoStackCase) -> dict[str, float]:
    """FLOPs of a forward and a backward pass of one sequence, scores of all pairs of tokens and stored."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import AutoModelForSeq2SeqLM

    config = config_of(case)
    config._attn_implementation = "eager"
    with torch.device("meta"), FlopCounterMode(display=False) as counted:
        model = AutoModelForSeq2SeqLM.from_config(config, dtype=torch.bfloat16)
        ids, words = (torch.zeros(1, tokens, dtype=torch.long) for tokens in (case.source, case.sequence))
        model(input_ids=ids, labels=words).loss.backward()
    return {"flop": float(counted.get_total_flops())}
