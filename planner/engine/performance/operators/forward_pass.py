"""One forward pass through one pipeline stage, in seconds by operator class, over the columns of a table.

The times of one layer's products, attention and elementwise work are computed in the other modules of this folder; the latency of kernels
and the host's launches are added once per layer.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from planner.engine.columns import Floats, Rows, Table, added, full, numbered
from planner.engine.performance.operators.attention import append_s, attention_time, latent_s
from planner.engine.performance.operators.communication import context_exchange_s, layer_collectives_s, stage_handover_s
from planner.engine.performance.operators.elementwise import adapters_s, elementwise_bytes, quantise_s
from planner.engine.performance.operators.experts import copied_experts_s
from planner.engine.performance.operators.host_memory import host_weights_s
from planner.engine.performance.operators.launches import kernel_latencies_s, launch_s
from planner.engine.performance.operators.products import ends_s, layer_products, product_time

DEVICE_CLASSES = ("matmul", "attention", "elementwise", "head", "communication", "latency")
"""Classes of operators that take device time, as attributes of a `Pass`."""
ALL = slice(None)
"""All rows."""
Shape = tuple[Floats, Floats, Floats, Floats]
"""Arguments of `forward`: rows, context, new, head_rows."""


class Pass(msgspec.Struct, frozen=True):
    """Seconds of one forward pass through one pipeline stage, shape [rows]."""

    matmul: Floats
    attention: Floats
    elementwise: Floats
    head: Floats
    communication: Floats
    latency: Floats
    host: Floats
    """Time the host needs to launch the pass; hidden by the device's work while it is shorter."""
    compute_bound: Floats
    """Part of `matmul` and `head` whose FLOPs take longer than their bytes."""
    shape: Shape

    @property
    def device(self) -> Floats:
        """Seconds in which the device works."""
        return added(getattr(self, name) for name in DEVICE_CLASSES)

    @property
    def total(self) -> Floats:
        """Seconds until the pass is done: the longer of device and host."""
        return np.maximum(self.device, self.host)

    def slowed(self, factor: Floats | float) -> Pass:
        """Pass with `factor` times the device time."""
        if np.all(factor == 1):
            return self
        return replace(self, **{name: getattr(self, name) * factor for name in (*DEVICE_CLASSES, "compute_bound")})

    def times(self, factor: Floats) -> Pass:
        """Pass repeated `factor` times."""
        return replace(self.slowed(factor), host=self.host * factor)

    def followed_by(self, other: Pass) -> Pass:
        """This pass and `other`, with the shape of this one."""
        taken = {name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__ if name != "shape"}
        return replace(self, **taken)

    def at(self, number: Rows | int, place: Rows | slice = ALL) -> Pass:
        """Passes with the `number` among those computed together, of the rows `place`, which may repeat."""

        def taken(column: Floats) -> Floats:
            return column if column.size == 1 else column[number, place] if column.ndim > 1 else column[place]

        rows, context, new, head_rows = map(taken, self.shape)
        seconds = {name: taken(getattr(self, name)) for name in self.__struct_fields__ if name != "shape"}
        return Pass(**seconds, shape=(rows, context, new, head_rows))


def forward_each(t: Table, shapes: Sequence[Shape]) -> list[Pass]:
    """A pass of each shape, computed together, so that what depends only on the rows of the table is computed once.

    For one row they are computed separately: NumPy's powers of [shapes, 1] differ in the last digits from those of [1].
    """
    if t.rows == 1:
        return [forward(t, *shape) for shape in shapes]
    rows, context, new, head_rows = (np.stack([full(column, t.rows) for column in every]) for every in zip(*shapes, strict=True))
    passes = forward(t, rows, context, new, head_rows=head_rows)
    return [passes.at(number) for number in range(len(shapes))]


def forward_grouped(t: Table, shapes: Sequence[Shape], once: Shape, place: Rows) -> list[Pass]:
    """A pass of each shape for the rows of the table at `place` (which may repeat), and one of the shape `once` for every row of the table."""
    number = numbered(place)
    most = int(number.max(initial=-1)) + 1

    def beside(column: Floats) -> Floats:
        wide = np.ones((most, t.rows))
        wide[number, place] = column
        return wide

    rows, context, new, head_rows = (
        np.concatenate([*map(beside, every), full(last, t.rows)[None]]) for *every, last in zip(*shapes, once, strict=True)
    )
    passes = forward(t, rows, context, new, head_rows=head_rows)
    return [*(passes.at(number + most * index, place) for index in range(len(shapes))), passes.at(-1, place)]


def forward(t: Table, rows: Floats, context: Floats, new: Floats, head_rows: Floats) -> Pass:
    """One pass through the layers of one pipeline stage; arguments broadcast to [rows].

    `rows`: tokens. `context`: mean number of tokens that each of them attends to. `new`: tokens of each sequence in this pass.
    `head_rows`: tokens the output head is applied to, of which each stage has an equal share.
    """
    layers = t.model.layers / t.layout.pp
    attention = attention_pass_s(t, rows, context, new)
    exchange_s = context_exchange_s(t, rows, new, attention / layers)
    counted = by_tokens(t, rows, head_rows, exchange_s)
    copies_s = layers * copied_experts_s(t, rows, new)
    return Pass(
        **(counted | {"elementwise": counted["elementwise"] + copies_s}),
        attention=attention,
        latency=latency_pass_s(t, new),
        host=layers * launch_s(t, context, new),
        shape=(rows, context, new, head_rows),
    )


def by_tokens(t: Table, rows: Floats, head_rows: Floats, exchange_s: Floats | float = 0.0) -> dict[str, Floats]:
    """Fields of a pass that depend only on its numbers of tokens; `exchange_s` of one layer between its GPUs is added to their collectives."""
    m, s, c = t.model, t.layout, t.chip
    layers, factor = m.layers / s.pp, t.engine.device_factor
    took, bound = {}, {}
    for name, product in layer_products(t, rows).items():
        time = product_time(t, product)
        took[name], bound[name] = time.seconds, time.compute_bound_s
    per_layer, bound_layer = took["attention"], bound["attention"]
    if "mlp" in took:
        per_layer, bound_layer = (
            layer + (1 - m.moe_share) * groups["mlp"] for layer, groups in ((per_layer, took), (bound_layer, bound))
        )
    if "experts" in took:
        per_layer, bound_layer = (
            layer + m.moe_share * (groups["experts"] + groups["shared"])
            for layer, groups in ((per_layer, took), (bound_layer, bound))
        )
    ends, bound_ends = ends_s(t, rows, head_rows)
    elementwise = elementwise_bytes(t, rows) / c.bandwidth_bytes_per_s + quantise_s(t, rows) + adapters_s(t, rows)
    between = added(layer_collectives_s(t, rows)) + exchange_s
    return {
        "matmul": layers * per_layer * factor,
        "elementwise": layers * elementwise * factor,
        "head": ends * factor,
        "communication": layers * between + stage_handover_s(t, rows) * (s.pp - 1) / s.pp + host_weights_s(t, rows),
        "compute_bound": (layers * bound_layer + bound_ends) * factor,
    }


def attention_pass_s(t: Table, rows: Floats, context: Floats, new: Floats) -> Floats:
    """Seconds of attention in a pass through one pipeline stage; see `forward`."""
    scores = attention_time(t, rows, context, new)
    copied_s = append_s(t, rows, context, new)
    around_s = latent_s(t, rows, new)
    return t.model.layers / t.layout.pp * ((scores.fused_s + scores.eager_s + around_s) * t.engine.device_factor + copied_s)


def latency_pass_s(t: Table, new: Floats) -> Floats:
    """Seconds that a pass through one pipeline stage spends in starting and ending kernels."""
    return t.model.layers / t.layout.pp * added(kernel_latencies_s(t, new))
