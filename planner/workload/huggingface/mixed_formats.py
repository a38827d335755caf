"""Formats of single parts of a checkpoint, by the modules in its `quantization_config`: modules that are left out, and those of other groups.

Tools name modules in different ways: whole names (`model.layers.0.self_attn.q_proj`), parts of them (`self_attn`, `lm_head`), patterns with
stars, and regular expressions after `re:`. A rule applies to the modules that its name matches, and to all modules below them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from planner.paths import read_shipped
from planner.workload.architecture import Architecture
from planner.workload.matrices import Matrix, matrices
from planner.workload.sublayers import HEAD, SIXTEEN_BITS, Role, StoredPart, layers_of

MOST_RULES, MOST_PATTERNS, MOST_NAME = 50_000, 200, 300
"""Maximum number of modules that a config may name, most patterns among them, and most characters of one; the rest is ignored."""
MOST_REPEATS = 4
"""Maximum number of repetitions in a regular expression, none of them of a group: matching always ends in reasonable time."""
_OTHERS = re.compile(r"(^|\.)(mtp|visual|vision\w*|audio\w*|model\.visual|draft\w*)\b")
_LAYER = re.compile(r"^(?:.*?\.)?(?:layers|h|blocks)\.(\d+)(?!\d)\.?(.*)$")
_ANY_LAYER = re.compile(r"^.*?\blayers\.\*")
_EXPERT = re.compile(r"(experts)\.\d+")
_SMALL_INPUTS = 256
"""Outputs up to which a matrix into a recurrence is counted as that of its rates, which has its own name."""

_ATTENTION = ("self_attn", "attn", "attention", "self_attention", "mixer")
_RECURRENCE = ("linear_attn", "linear_attention", "mixer", "mamba", "conv", "short_conv", "self_attn")
_RATES = ("in_proj_ba", "in_proj_a", "in_proj_b")
_MLP = ("mlp", "feed_forward", "ffn", "block_sparse_moe", "mixer", "moe")
_PARENTS: dict[str, tuple[str, ...]] = {
    "attention": _ATTENTION,
    "mlp": _MLP,
    "experts": tuple(f"{one}.experts.0" for one in _MLP),
    "shared": tuple(f"{one}.{name}" for one in _MLP for name in ("shared_experts", "shared_expert", "shared_mlp")),
}
_BESIDE_A_SHARED_MLP = {"experts": ("experts.0", "moe.experts.0"), "shared": ("mlp",)}
"""Parents of Gemma 4, whose shared expert is called the MLP."""


class _Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file, which describes each table."""

    whole: dict[str, str]
    algorithms: dict[str, str]
    torchao: dict[str, str]
    quark: dict[str, str]
    grouped: dict[str, dict[str, tuple[str, tuple[int, ...]]]]
    modules: dict[str, tuple[str, ...]]


NAMES = read_shipped(_Names, "catalogues", "checkpoints.toml")
"""Names in checkpoints."""


class Rule(NamedTuple):
    """Format of the modules that `name` matches."""

    name: str
    format: str


class _Rules(NamedTuple):
    named: Mapping[str, str]
    """Name of modules -> format."""
    most_words: int
    """Parts of the longest name."""
    patterns: tuple[Rule, ...]

    def format_of(self, path: str) -> str | None:
        """Format by the longest name that is `path` or one of its parts, then by a pattern; None if no rule matches."""
        words = path.split(".")
        for length in range(min(len(words), self.most_words), 0, -1):
            for first in range(len(words) - length + 1):
                if found := self.named.get(".".join(words[first : first + length])):
                    return found
        return next((rule.format for rule in self.patterns if _stands_for(rule.name, path)), None)


class _Sorted(NamedTuple):
    every: _Rules
    """Rules of all layers, for whole names."""
    by_layer: Mapping[int, frozenset[Rule]]
    """Rules of single layers, for the part of the name after the number of the layer."""


def stored_parts(rules: Iterable[Rule], main: str, rest: str, architecture: Architecture) -> tuple[StoredPart, ...]:
    """Parts of `architecture` that are not stored in its main format; `rest`: the format of modules without a rule."""
    given, found = _sorted(rules), []
    head = given.every.named.get("lm_head")
    if head not in {None, SIXTEEN_BITS} and architecture.head:
        found.append(StoredPart(part=HEAD, format=str(head)))
    groups: dict[tuple[str, Role, int, int], list[Matrix]] = {}
    for one in matrices(architecture):
        if one.part in _PARENTS and one not in groups.get((one.part, one.role, one.inputs, one.outputs), ()):
            groups.setdefault((one.part, one.role, one.inputs, one.outputs), []).append(one)
    for (part, role, inputs, outputs), alike in groups.items():
        for stored, share in _shares(given, alike, rest, architecture).items():
            if stored != main:
                found.append(StoredPart(part=part, role=role, inputs=inputs, outputs=outputs, format=stored, share=share))
    return tuple(found)


def _sorted(rules: Iterable[Rule]) -> _Sorted:
    every: dict[Rule, None] = {}
    by_layer: dict[int, set[Rule]] = {}
    for name, stored in islice(rules, MOST_RULES):
        expression = name.startswith("re:")
        if len(name) > MOST_NAME or (not expression and _OTHERS.search(name)):
            continue
        path = name if expression else _ANY_LAYER.sub("*.layers.*", name)
        at = None if expression else _LAYER.match(path)
        rule = Rule(_EXPERT.sub(r"\1.0", at[2] or "*" if at else path), stored)
        if at and len(at[1]) <= 5:  # digits in the largest number of layers of a model
            by_layer.setdefault(int(at[1]), set()).add(rule)
        else:
            every[rule] = None
    return _Sorted(_rules(every), {layer: frozenset(own) for layer, own in by_layer.items()})


@lru_cache(maxsize=1024)
def _own_rules(rules: frozenset[Rule]) -> _Rules:
    return _rules(sorted(rules))


def _rules(rules: Iterable[Rule]) -> _Rules:
    plain: dict[str, str] = {}
    patterns: list[Rule] = []
    for rule in rules:
        if rule.name.startswith("re:") or "*" in rule.name:
            patterns.append(rule)
        else:
            plain.setdefault(rule.name, rule.format)
    most_words = max((name.count(".") + 1 for name in plain), default=0)
    return _Rules(plain, most_words, tuple(patterns[:MOST_PATTERNS]))


def _shares(rules: _Sorted, alike: list[Matrix], rest: str, a: Architecture) -> dict[str, float]:
    """Format -> share of matrices of one use and shape."""
    names = tuple(_names(alike[0], a.family))
    in_order = not layers_of(a.instead, "mlp") and alike[0].part != "attention"
    layers = [layer for one in alike for layer in range(one.first, one.first + int(one.layers))] if in_order else range(a.layers)
    numbered = any(rule.name.startswith("re:") and re.search(r"\d", rule.name) for rule in rules.every.patterns)
    sets = Counter((rules.by_layer.get(layer, frozenset()), layer if numbered else 0) for layer in layers)
    named: Counter[str] = Counter()
    for (own, layer), count in sets.items():
        found = (_own_rules(own).format_of(name) or rules.every.format_of(f"model.layers.{layer}.{name}") for name in names)
        if stored := next((one for one in found if one), None):
            named[stored] += count
    stated = sum(named.values())
    whole = stated if stated >= len(layers) else max(stated, sum(one.layers for one in alike))
    shares = {stored: count / whole for stored, count in named.items()}
    return shares | ({rest: shares.get(rest, 0.0) + 1 - stated / whole} if stated < whole else {})


def _names(matrix: Matrix, family: str) -> Iterator[str]:
    """Possible names of the module of `matrix` within its layer."""
    own = _BESIDE_A_SHARED_MLP if family.startswith("gemma4") else {}
    parents = own.get(matrix.part, _PARENTS[matrix.part])
    leaves = NAMES.modules.get(matrix.role, ())
    if matrix.role in {"in", "out"} and matrix.part == "attention":
        parents = _RECURRENCE
        leaves = _RATES if matrix.role == "in" and matrix.outputs <= _SMALL_INPUTS else leaves
    if matrix.role in {"gate", "up", "gate_up"}:
        leaves = (*leaves, "gate_up_proj")
    for parent in parents:
        yield from (f"{parent}.{leaf}" for leaf in leaves)


@lru_cache(maxsize=512)
def _expression(text: str) -> re.Pattern[str] | None:
    """`text` as a regular expression, if it has few repetitions, none of a group or of another repetition; else None."""
    if len(re.findall(r"[*+?{]", text)) > MOST_REPEATS or re.search(r"[)*+?}][*+?{]|\(\?|\\[1-9]", text):
        return None
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return None


def _stands_for(rule: str, path: str) -> bool:
    """True if the pattern `rule` matches the module at `path`, or a module that contains it."""
    if rule.startswith("re:"):
        expression = _expression(rule[3:])
        return expression is not None and expression.match(path) is not None
    return any(fnmatchcase(path, pattern) for pattern in (rule, f"*.{rule}", f"{rule}.*", f"*.{rule}.*"))


def names_in(value: object, stored: str) -> Iterator[Rule]:
    """Rules of a list of names, all of one format."""
    if stored and isinstance(value, list):
        yield from (Rule(name, stored) for name in value if isinstance(name, str))


def formats_in(value: object, algorithms: Mapping[str, str]) -> Iterator[Rule]:
    """Rules of ModelOpt's `quantized_layers`: an algorithm for each module."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            algorithm = str(one.get("quant_algo")).upper() if isinstance(one, Mapping) else ""
            if isinstance(name, str) and algorithm in algorithms:
                yield Rule(name, algorithms[algorithm])


def left_out(given: Mapping[str, Any], stored: str = SIXTEEN_BITS) -> Iterator[Rule]:
    """Rules of modules that a quantisation leaves in the format `stored`, under the keys of all tools."""
    for key in _LEFT_OUT:
        yield from names_in(given.get(key), stored)


_LEFT_OUT = (
    "ignore", "exclude_modules", "modules_to_not_convert", "llm_int8_skip_modules", "ignored_layers", "exclude", "skip_modules",
)  # fmt: skip
