"""Filters such as 'l4 h100 aws spot $/h<5', parsed into a narrower search and conditions on its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from planner.engine.answers.figure import value_of
from planner.errors import nearest_names
from planner.hardware.catalogue.spelling import spelled
from planner.present.plan import memory_share, p95_or_mean, throughput
from planner.workload.tasks import Market, ProviderKind

if TYPE_CHECKING:
    from planner.engine.answers.plan import PlanRow

Test = Callable[["PlanRow"], bool]
LEAST_PREFIX, LEAST_INSIDE = 2, 3
"""Minimum letters of a word that matches the beginning of names, and of later words of names."""
JOINING = frozenset({"and", "or", "only", "on", "at", "in", "with"})
"""Words that are ignored between conditions."""
LONGEST_NUMBER = 6
"""Number of digits from which a number is not a number of GPUs."""
WITHOUT = frozenset({"not", "no", "without", "except"})
"""Words that exclude the next one, like the prefixes `!` and `-`."""
LISTS = {"gpu": "gpus_considered", "provider": "providers", "kind": "kinds", "region": "regions", "country": "countries"}
"""Kind of names -> the key of the workload that lists them."""
SINGLE = {"market": "market", "network": "fabric", "link": "fabric"}
"""Kind of names -> the key of the workload that holds one of them."""
FABRICS = ("infiniband", "ethernet", "none")
WORDS = ("gpu", "provider", "market", "kind")
"""Kinds of names that a word without prefix may match, in this order."""
LISTED = ("gpu", "provider")
"""Kinds that are excluded by listing all others; names of other kinds are added to `exclude`."""
_COMPARISON = re.compile(r"([a-z0-9/$×]+?)(<=|>=|<|>|=)([\d.,]+)([kmb]?)%?", re.IGNORECASE)
_COMPARED = re.compile(r"([a-z0-9/$×]+?)[<>=]", re.IGNORECASE)
_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9}


class FacetNames(msgspec.Struct, frozen=True):
    """Names that a filter may use."""

    gpus: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Every spelling -> the GPU's name."""
    providers: Sequence[str] = ()
    regions: Sequence[str] = ()
    markets: Sequence[str] = get_args(Market)
    kinds: Sequence[str] = get_args(ProviderKind)
    vendors: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    """Name of a vendor -> its GPUs."""
    only_named: frozenset[str] = frozenset()
    """GPUs that are in a plan only if named: a part of a word selects them only if it selects no others."""


class Facets(msgspec.Struct, frozen=True):
    """A parsed filter."""

    changes: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Keys of the workload that narrow the search."""
    tests: tuple[Test, ...] = ()
    """Conditions that a row has to fulfil."""
    chips: tuple[str, ...] = ()
    """Conditions of the filter, in words."""
    problems: tuple[str, ...] = ()
    """Messages on parts that cannot be used."""

    def keeps(self, row: PlanRow) -> bool:
        """True if `row` fulfils all conditions."""
        return all(test(row) for test in self.tests)

    def over(self, workload: Mapping[str, Any]) -> dict[str, Any]:
        """`workload` with the search restricted by the filter."""
        left_out = [*workload.get("exclude", ()), *self.changes.get("exclude", ())]
        return {**workload, **self.changes, **({"exclude": left_out} if left_out else {})}


def read_facets(text: str, names: FacetNames) -> Facets:
    """Parse a filter.

    `gpu:`, `provider:`, `kind:`, `region:`, `country:`, `market:` and `network:` take names, several with commas; `$/h<5` and
    similar compare, `8 gpus` is their number; `fits`, `here` and `own` choose rows; `!`, `-` and `not` exclude. A single word matches a vendor,
    GPU, provider, market or kind of provider by name or its beginning, otherwise any text of a row; the name of a family is all of its GPUs.
    """
    reading = _FacetParser(names)
    for term in dict.fromkeys(_terms(text)):
        reading.take(term)
    return reading.result()


def _terms(text: str) -> Iterator[str]:
    """Conditions of `text` as single words: commas between words are blanks, `not x` is `!x`, and `8 gpus` is `gpus=8`."""
    number, without = "", False
    for word in text.split():
        whole = ":" in word or _COMPARISON.fullmatch(word)
        for part in (word,) if whole else filter(None, word.split(",")):
            if number and part.casefold() in {"gpu", "gpus"}:
                yield f"gpus={number}"
                number = ""
                continue
            if number:
                yield number
            number = part if part.isdecimal() and len(part) < LONGEST_NUMBER else ""
            if part.casefold() in WITHOUT:
                without = True
            elif not number and part.casefold() not in JOINING:
                negative = part.startswith("-") and len(part) > 1
                yield f"!{part.lstrip('-!')}" if negative or (without and not whole) else part
                without = False
    if number:
        yield number


class _FacetParser:
    """Parser of a filter, word by word."""

    def __init__(self, names: FacetNames) -> None:
        self._names = names
        self._spelled = {spelled(spelling): name for spelling, name in names.gpus.items()}
        self._kept: dict[str, list[str]] = {kind: [] for kind in (*LISTS, *SINGLE)}
        self._left_out: dict[str, list[str]] = {kind: [] for kind in (*LISTED, "kind")}
        self._changes: dict[str, Any] = {}
        self._tests: list[Test] = []
        self._chips: list[str] = []
        self._problems: list[str] = []

    def take(self, term: str) -> None:
        """Parse one word."""
        kind, colon, given = term.partition(":")
        if colon and kind.casefold() in self._kept:
            for name in filter(None, given.split(",")):
                self._facet(kind.casefold(), name)
        elif compared := _COMPARISON.fullmatch(term):
            self._comparison(*compared.groups())
        elif term.startswith("!") and len(term) > 1:
            self._without(term[1:])
        elif colon:
            self._problems.append(f"there is no filter {kind!r}; {', '.join(self._kept)} are")
        elif (begun := _COMPARED.match(term)) and begun[1].casefold() in _FIGURES:
            self._problems.append(f"{term!r} compares with no number")
        elif term.casefold() == "fits":
            self._condition("fits", lambda row: row.rank is not None)
        elif term.casefold() == "here":
            self._condition("here", lambda row: row.here)
        elif term.casefold() == "own":
            self._condition("own", lambda row: row.owned is not None)
        elif len(term) >= LEAST_PREFIX:
            self._word(term)

    def result(self) -> Facets:
        """The whole filter."""
        changes, chips = dict(self._changes), []
        every = {"gpu": dict.fromkeys(self._ranked()), "provider": dict.fromkeys(self._names.providers)}
        for kind, key in LISTS.items():
            kept, left_out = list(dict.fromkeys(self._kept[kind])), self._left_out.get(kind, [])
            if kept or (left_out and kind in LISTED):
                changes[key] = [name for name in kept or every[kind] if name not in left_out]
                if not changes[key]:
                    del changes[key]
                    self._problems.append(f"no {kind} is left")
            elif left_out:
                changes["exclude"] = left_out
            chips += [f"{kind} {', '.join(self._said(kept))}"] if kept else []
            chips += [f"no {name}" for name in self._said(left_out)]
        for kind, key in SINGLE.items():
            if self._kept[kind]:
                changes[key] = self._kept[kind][-1]
                chips.append(f"{kind} {changes[key]}")
        return Facets(changes, tuple(self._tests), (*chips, *self._chips), tuple(self._problems))

    def _said(self, names: Sequence[str]) -> list[str]:
        """`names` with all GPUs of a vendor replaced by the vendor's name."""
        said, rest = list[str](), list(names)
        for vendor, gpus in self._names.vendors.items():
            every = {name for name in gpus if name not in self._names.only_named}
            if len(every) > 1 and every <= set(rest):
                said.append(vendor)
                rest = [name for name in rest if name not in every]
        return [*said, *rest]

    def _facet(self, kind: str, given: str) -> None:
        """Parse a name with a prefix: an exact name, or else all names that contain it."""
        found = self._exact(kind, given) or self._containing(kind, given)
        self._kept[kind] += found
        if not found:
            near = nearest_names(given, dict.fromkeys(self._listed(kind)))
            self._problems.append(f"no {kind} is called {given!r}" + (f"; {', '.join(near)}" if near else ""))

    def _word(self, word: str) -> None:
        if of_vendor := self._vendor(word):
            self._kept["gpu"] += of_vendor
            return
        for find in (self._exact, self._beginning, self._inside):
            for kind in WORDS:
                if found := find(kind, word):
                    self._kept[kind] += found
                    return
        wanted = word.casefold()
        self._condition(f"“{word}”", lambda row: wanted in _text(row))

    def _without(self, word: str) -> None:
        for kind in self._left_out:
            if found := (self._vendor(word) if kind == "gpu" else []) or self._exact(kind, word):
                self._left_out[kind] += found
                return
        unwanted = word.casefold()
        self._condition(f"no “{word}”", lambda row: unwanted not in _text(row))

    def _condition(self, chip: str, test: Test) -> None:
        self._chips.append(chip)
        self._tests.append(test)

    def _comparison(self, name: str, sign: str, number: str, scale: str) -> None:
        known = _FIGURES.get(name.casefold())
        try:
            limit = float(number.replace(",", "")) * _SCALES[scale.casefold()]
        except ValueError:
            return
        if known is None:
            self._problems.append(f"{name!r} is not a figure; choose from {', '.join(_FIGURES)}")
            return
        if sign in {"<", "<=", "="} and name.casefold() == "gpus" and (most := int(limit) - (sign == "<")) > 0:
            self._changes["max_gpus"] = most
        self._condition(f"{name}{sign}{number}{scale}", lambda row: _holds(known(row), sign, limit))

    def _listed(self, kind: str) -> Sequence[str]:
        names = self._names
        lists: dict[str, Sequence[str]] = {
            "gpu": list(names.gpus.values()),
            "provider": names.providers,
            "kind": names.kinds,
            "region": names.regions,
            "market": names.markets,
            "network": FABRICS,
            "link": FABRICS,
        }
        return lists[kind]

    def _exact(self, kind: str, given: str) -> list[str]:
        if kind == "country":  # any code; the search rejects unknown ones
            return [given.upper()]
        if kind == "region" and set(given) & set("*?"):
            return [given]
        if kind == "gpu":
            return self._family(given) or ([found] if (found := self._spelled.get(spelled(given))) else [])
        folded = _folded(given)
        return [name for name in self._listed(kind) if _folded(name) == folded]

    def _vendor(self, word: str) -> list[str]:
        """Ranked GPUs of a vendor."""
        return [name for name in self._names.vendors.get(word.casefold(), ()) if name not in self._names.only_named]

    def _family(self, given: str) -> list[str]:
        """GPUs whose names begin with the words of a family, as 'H100 PCIe' with 'h100'; none if it is the name of a GPU, like L4."""
        words = given.casefold().split("-")
        named = [(name, re.split(r"[\s-]", name.casefold())) for name in dict.fromkeys(self._listed("gpu"))]
        if any(own == words for _, own in named):
            return []
        found = [name for name, own in named if own[: len(words)] == words]
        return [name for name in found if name not in self._names.only_named] or found

    def _beginning(self, kind: str, given: str) -> list[str]:
        start = given.casefold()
        return self._chosen(kind, lambda name: name.casefold().startswith(start))

    def _inside(self, kind: str, given: str) -> list[str]:
        """Names with a later word that begins with the given one, as 'RTX A6000' with 'a6000'."""
        start = f" {given.casefold()}"
        if len(given) < LEAST_INSIDE:
            return []
        return self._chosen(kind, lambda name: start in name.casefold())

    def _containing(self, kind: str, given: str) -> list[str]:
        folded = _folded(given)
        return self._chosen(kind, lambda name: folded in _folded(name))

    def _chosen(self, kind: str, has: Callable[[str], bool]) -> list[str]:
        """Names of `kind` that fulfil `has`; ranked GPUs take precedence over others."""
        found = [name for name in dict.fromkeys(self._listed(kind)) if has(name)]
        return [name for name in found if name not in self._names.only_named] or found

    def _ranked(self) -> list[str]:
        return [name for name in self._names.gpus.values() if name not in self._names.only_named]


def _folded(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.casefold())


def _text(row: PlanRow) -> str:
    """Text of a row in which a filter searches."""
    layout, offer = row.answer.layout, row.offer
    parts = (
        row.gpu,
        f"x{layout.gpus} {layout.text}" if layout else "",
        row.answer.bottleneck or "",
        f"{offer.provider} {offer.instance} {offer.region} {offer.market}" if offer else "",
        row.verdict,
        row.basis,
    )
    return " ".join(parts).casefold()


def _holds(value: float | None, sign: str, limit: float) -> bool:
    """True if a value fulfils the comparison with its limit; False if it is unknown."""
    if value is None:
        return False
    return {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit, "=": value == limit}[sign]


def _percent(share: float | None) -> float | None:
    return share * 100 if share is not None else None


_FIGURES: Mapping[str, Callable[[PlanRow], float | None]] = {
    "$/h": lambda row: value_of(row.usd_per_h),
    "$/month": lambda row: value_of(row.usd_per_month),
    "$/job": lambda row: value_of(row.job_usd),
    "$/m": lambda row: value_of(row.answer.usd_per_million_tokens),
    "gpus": lambda row: row.answer.layout.gpus if row.answer.layout else None,
    "p95": lambda row: value_of(p95_or_mean(row.answer.request_s)),
    "first": lambda row: value_of(p95_or_mean(row.answer.ttft_s)),
    "sure": lambda row: _percent(row.probability_meets),
    "memory": lambda row: _percent(memory_share(row.answer)),
    "tok/s": lambda row: value_of(throughput(row.answer)),
    "hours": lambda row: value_of(row.job_h),
}
"""Name in a comparison -> figure of a row: dollars, counts, seconds, percent, tokens per second, hours."""
