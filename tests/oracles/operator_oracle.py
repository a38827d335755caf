"""Bytes in and out of the operators between the products of a forward pass, as PyTorch dispatches them."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM, LlamaConfig

PRODUCTS = {"mm", "addmm", "bmm", "embedding"}
VIEWS = {"view", "_unsafe_view", "t", "transpose", "slice", "expand", "unsqueeze", "detach", "alias", "select", "permute", "split"}


class BytesBetweenProducts(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed
    """Bytes in and out of every operator that is no product, no view and does not work on attention scores."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if function.overloadpacket.__name__ not in PRODUCTS | VIEWS:
            tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, torch.Tensor)]
            if not any(tensor.shape[-2:] == (self.tokens, self.tokens) for tensor in tensors):
                self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return result


def bytes_between_products(sizes: dict[str, Any], layers: int, tokens: int) -> int:
    """Bytes of one prompt of `tokens` through a Llama of these sizes, whose weights exist as shapes only."""
    config = LlamaConfig(**sizes, num_hidden_layers=layers)
    config._attn_implementation = "eager"
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float16).eval()
        prompt = torch.zeros(1, tokens, dtype=torch.long)
    with torch.no_grad(), BytesBetweenProducts(tokens) as counted:
        model(prompt, use_cache=True, logits_to_keep=1)
    return int(counted.bytes)
