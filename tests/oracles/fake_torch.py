"""PyTorch without data or a GPU: operators run for their shapes alone, and the bytes that live are added up.

Storages are made and freed exactly as eager PyTorch would. Attention runs as CUDA's flash kernel (query, key, value, output and
a statistic a head and token are kept), since the one of the CPU falls back to stored scores where there is dropout. What a
kernel takes for itself and returns before it ends is not seen.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint


class Living(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed
    """Adds up the bytes of the storages that operators make, until they are freed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.moment = "setup"
        self.moments: dict[str, float] = {}
        self.peak = 0.0
        self.parts: dict[str, float] = {}
        self.split: Callable[[], dict[str, float]] = dict
        self.weights: weakref.WeakSet[Any] = weakref.WeakSet()
        self.shapes: set[Any] = set()
        """Shapes of the matrices."""
        self.casts: weakref.WeakSet[Any] = weakref.WeakSet()
        """Copies of the weights in another type."""
        self._counted: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and args[0].untyped_storage() in self.weights:
            self.casts.add(out.untyped_storage())
        if func is torch.ops.aten.add.Tensor and self.backward and out.shape in self.shapes:
            self._instead(args[0])
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self.watch(leaf)
        return out

    def watch(self, tensor: torch.Tensor) -> None:
        """Count the storage of `tensor` from now until it is freed."""
        storage = tensor.untyped_storage()
        if storage in self._counted:
            return
        size = storage.nbytes()
        self._counted[storage] = weakref.finalize(storage, self._freed, size)
        self.now += size
        if self.now > self.moments.get(self.moment, 0):
            self.moments[self.moment] = self.now
            if self.now > self.peak and self.moment != "setup":
                self.peak = self.now
                self.parts = self.split()

    @property
    def backward(self) -> bool:
        """Gradients are computed."""
        return self.moment in {"head", "last", "middle", "first", "end"}

    def _instead(self, tensor: torch.Tensor) -> None:
        """What is about to be counted takes the place of `tensor`: autograd adds to a gradient in place, unless it is fake."""
        storage = tensor.untyped_storage()
        if (counted := self._counted.pop(storage, None)) is not None and counted.detach():
            self.now -= storage.nbytes()

    def _freed(self, size: int) -> None:
        self.now -= size


SINGLE = {
    getattr(owner, name)
    for name in ("pow", "rsqrt", "softmax", "log_softmax", "cumsum", "sum", "prod", "exp", "log", "norm")
    for owner in (torch, torch.Tensor)
} | {nn.functional.layer_norm, nn.functional.softmax}


class OnCuda(TorchFunctionMode):  # type: ignore[misc]  # torch is not followed
    """Where CUDA differs from the CPU: dropout keeps a mask of one byte; autocast computes more operators in FP32."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.item:  # Adafactor scales by a value no fake tensor has
            return 1.0
        if func is nn.functional.dropout:
            p = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
            training = kwargs.get("training", args[2] if len(args) > 2 else True)
            return torch.native_dropout(args[0] if args else kwargs["input"], p, True)[0] if training and p else args[0]
        if torch.is_autocast_enabled("cpu") and func in SINGLE and "dtype" not in kwargs:
            args = tuple(a.float() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args)
        return func(*args, **kwargs)


def as_on_cuda(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` under `OnCuda` when it is run again, too: in backward the modes around it are off."""

    def run_again(*args: Any, **kwargs: Any) -> Any:
        with OnCuda():
            return function(*args, **kwargs)

    return run_again


def bytes_of(tensors: Iterator[torch.Tensor] | list[torch.Tensor]) -> float:
    """Bytes of the storages behind `tensors`, each once."""
    return float(sum({id(s): s.nbytes() for s in (t.untyped_storage() for t in tensors)}.values()))


def flash(
    module: nn.Module, query: Any, key: Any, value: Any, mask: Any, *, dropout: float = 0.0, scaling: float | None = None, **_: Any
) -> Any:
    """Attention by CUDA's flash kernel, which takes fewer key heads than query heads as they are."""
    if torch.is_autocast_enabled("cpu"):  # SDPA is computed in 16 bit under autocast
        query, key, value = (t.to(torch.get_autocast_dtype("cpu")) for t in (query, key, value))
    if query.dtype == torch.float32:  # the flash kernel is 16-bit; the memory-efficient one keeps the same tensors
        heads = query.shape[1] // key.shape[1]
        key, value = (t.repeat_interleave(heads, 1) if heads > 1 else t for t in (key, value))
    if query.shape[-1] != value.shape[-1]:  # the flash kernel wants one size; the memory-efficient one takes any, of equal heads
        out = torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, None, True, dropout, True, scale=scaling)[0]
        return out.transpose(1, 2).contiguous(), None
    out = torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, dropout, True, False, scale=scaling)[0]
    return out.transpose(1, 2).contiguous(), None


def recomputed(
    module: nn.Module, query: Any, key: Any, value: Any, mask: Any, *, scaling: float, dropout: float = 0.0, **_: Any
) -> Any:
    """Attention with stored scores, which are computed again in backward (selective recomputation, arXiv:2205.05198)."""

    def core(query: Any, key: Any, value: Any) -> Any:
        heads = query.shape[1] // key.shape[1]
        key, value = (t.repeat_interleave(heads, 1) if heads > 1 else t for t in (key, value))
        scores = torch.matmul(query, key.transpose(2, 3)) * scaling + mask
        share = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
        share = nn.functional.dropout(share, p=dropout, training=module.training)
        return torch.matmul(share, value).transpose(1, 2).contiguous()

    return checkpoint(as_on_cuda(core), query, key, value, use_reentrant=False, preserve_rng_state=False), None


@contextmanager
def quiet() -> Iterator[None]:
    """Fake tensors, and no warning about what only a real device would mind."""
    with warnings.catch_warnings(), FakeTensorMode(), OnCuda():
        warnings.simplefilter("ignore")
        yield
