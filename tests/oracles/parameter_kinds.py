"""Parameters of an architecture by kind, to hold against those of transformers."""

from __future__ import annotations

from planner.workload.architecture import Architecture


def components(a: Architecture) -> dict[str, int]:
    """Parameters by kind, in the order of the forward pass; they add up to `total`.

    "experts" include their biases; "attention" the sinks, "router" its biases or corrections, "shared" its gate, "norms" their
    biases; "biases" are of all other projections, the head included; "head" is 0 when tied; "towers" read pictures.
    """
    further_parts = (*a.instead, *a.beside)
    further = {
        part: sum(one.kept * (one.matrix + one.convolution + one.other) for one in further_parts if one.part == part)
        for part in ("attention", "mlp", "router")
    }
    norms, biases = (sum(one.kept * getattr(one, name) for one in further_parts) for name in ("norm", "bias"))
    own = a.attention_layers
    source = components(a.source) if a.source else {}
    counted = {
        "embedding": a.embedding - source.get("embedding", 0),
        "attention": own * (a.attention_matrix + a.sinks) + further["attention"],
        "mlp": a.dense_layers * a.dense_mlp_matrix + further["mlp"],
        "experts": a.experts_total - source.get("experts", 0),
        "router": a.moe_layers * (a.router_matrix + a.router_vector) + further["router"],
        "shared": a.moe_layers * a.shared_matrix,
        "norms": own * a.attention_norm + a.layers * a.norm_vector + norms + a.final_norms * a.norm_parameters,
        "biases": own * a.attention_bias + a.dense_layers * a.mlp_vector + biases + a.final_bias,
        "head": a.head,
        "towers": a.towers,
    }
    return {kind: count + source.get(kind, 0) for kind, count in counted.items()}
