"""Meanings of a text typed into the box, best first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from textual.fuzzy import FuzzySearch

from planner.errors import nearest_names
from planner.present.command_line import value_of
from planner.workload.huggingface.hub import is_hub_id
from planner.workload.models import is_path
from widgets.panes.workload import fields as spec
from widgets.panes.workload.field import Field
from widgets.panes.workload.machines import machine, machines_text

Kind = Literal["model", "preset", "session", "gpu", "machines", "command", "setting", "field"]
EXACT, BEGINS, HAS_PARTS = 1e6, 1e3, 500.0
"""Scores above every fuzzy match: of the very name; of its beginning, one more where no number was typed in part ('3' of '3.1'); and of a
name that has every part typed, which 'a14b' has not for '14b'."""
ON_THIS_MACHINE = "config.json on this machine"
FILES: Mapping[str, tuple[Kind, str]] = {
    ".toml": ("preset", "a preset on this machine"),
    ".gguf": ("model", "a GGUF file on this machine"),
}
"""Ends of paths that are no config.json's: what such a file is."""
LONG = 1000
"""Length of a name above that of any."""
MOST_NEAR = 3
"""Names of a similar spelling that are offered where nothing matches the text."""
PART = re.compile(r"[a-z]?\d+(?:\.\d+)?[a-z]*|[a-z]+")
"""Parts of a name: 'qwen', '2', '57b' and 'a14b' of 'qwen2-57b-a14b'."""
WORD = re.compile(r"\w+")
LIMIT = re.compile(r"\s*[<≤]=?\s*")
"""Sign between a field and its amount: 'p95 < 3'."""
SIGNS = re.compile(r"[^a-z0-9]+")
"""Signs between the parts of a name, which people leave out: 'llama3 70b' is found in 'llama-3.1-70b'."""
BEFORE_KEY = re.compile(r"\s+(?=[\w.]+=)")
"""Blanks before another key."""
NUMBER = r"\d+(?:\.\d+)?"
GENERATION = r"(?<![\d.])((?!0\d)\d{1,2}(?:\.\d+)?)(?![\d.]|[bmktx])"
"""First number of a model's name that is no size ('70b', '8x7b') and no date ('08-2024', '2410')."""
MACHINES = re.compile(
    r"(?:(?P<owned>(?:i |we )?(?:own|have) )(?:an? |one )?)?(?:(?P<count>[1-9]\d{0,2})(?:\s*[x×*]\s*|\s+))?(?P<name>.+)"
)
"""A number of GPUs and the beginning of their name, perhaps as people say what they own: 'i own a 4090'."""

ALSO: Mapping[str, str] = {
    "weight_dtype": "quantization precision",
    "kv_dtype": "quantization precision",
    "input_tokens": "context length prompts",
    "output_tokens": "context length answers",
    "sequence": "context length",
    "request_rate_per_s": "traffic rps",
    "daily_users": "people dau",
    "concurrency": "concurrent users parallel",
    "targets.p95_request_s": "latency sla slo",
    "targets.p95_ttft_s": "latency sla slo",
    "targets.p95_tpot_s": "latency sla slo itl",
    "targets.budget_usd": "cost money dollars",
    "max_gpus": "number count",
    "own": "mine have machines hardware",
    "capex_usd": "buy purchase money dollars",
    "market": "rent",
    "providers": "clouds",
    "max_num_seqs": "batch",
    "targets.headroom": "memory fraction",
}
"""Key of a field -> words that people look for it by, beside its label, its key and what it takes."""


class Suggestion(msgspec.Struct, frozen=True):
    """An entry of the box's list, which enter takes."""

    kind: Kind
    value: str
    """Name of the model, preset, session or GPU, path, id of the hub, id of the action, 'key=value', '8 × L40S', label of the field."""
    detail: str = ""
    also: str = ""
    """Further words that it is found by."""


def of_fields(workload: Mapping[str, Any]) -> list[Suggestion]:
    """Fields of the form to go to, by their labels."""
    return [
        Suggestion("field", one.label, f"{one.about or ', '.join(one.choices)} ({one.key})".strip(), ALSO.get(one.key, ""))
        for one in spec.fields_for(workload)
    ]


def find(text: str, suggestions: Iterable[Suggestion], fields: Sequence[Field] = ()) -> list[Suggestion]:
    """Suggestions that `text` may mean: settings and models to be looked up as typed, then those with such a name.

    `fields`: those that an amount may be meant for, as in '20 users'.
    """
    typed = LIMIT.sub(" ", text.strip())
    if not typed:
        return list(suggestions)
    search, wanted, suggestions = FuzzySearch(), typed.casefold(), list(suggestions)
    found = [*_as_typed(typed), *_machines(wanted, suggestions), *_amounts(wanted, fields)]
    scored = [(_score(search, wanted, suggestion), place, suggestion) for place, suggestion in enumerate(suggestions)]
    scored = sorted((one for one in scored if one[0] > 0), key=lambda one: (-one[0], *_order(one[2]), one[1]))
    return [*found, *(suggestion for _, _, suggestion in scored if suggestion not in found)]


def _order(suggestion: Suggestion) -> tuple[float, bool, list[float]]:
    """Sort key of names that match equally well: the newest generation of models first, and in it the smallest; workloads of it follow.

    Fields stand as in the form, behind GPUs and commands.
    """
    if suggestion.kind not in {"model", "preset"}:
        return 0, False, [LONG if suggestion.kind == "field" else len(suggestion.value)]
    return (
        -generation(suggestion.value),
        suggestion.kind == "preset",
        [float(number) for number in re.findall(NUMBER, suggestion.value)],
    )


def generation(name: str) -> float:
    """Generation that a model's name states, as 3.1 of 'llama-3.1-70b'; 0 if it states none."""
    stated = re.search(GENERATION, name.casefold())
    return float(stated[1]) if stated else 0.0


def near(text: str, suggestions: Iterable[Suggestion]) -> list[Suggestion]:
    """Suggestions whose names are spelled most like `text`."""
    named = {suggestion.value: suggestion for suggestion in suggestions if suggestion.kind != "command"}
    return [named[name] for name in nearest_names(text.strip(), named, MOST_NEAR)]


def _as_typed(typed: str) -> list[Suggestion]:
    if "=" in typed and "/" not in typed.partition("=")[0]:
        return [Suggestion("setting", typed, "sets this key of the workload")]
    if is_path(typed.casefold()):
        kind, detail = FILES.get(Path(typed).suffix.casefold(), ("model", ON_THIS_MACHINE))
        return [Suggestion(kind, typed, detail)]
    if _is_folder_of_a_model(typed):
        return [Suggestion("model", f"./{typed}", ON_THIS_MACHINE)]
    return [Suggestion("model", typed, "on the Hugging Face hub")] if is_hub_id(typed) else []


def _machines(wanted: str, suggestions: Iterable[Suggestion]) -> Iterator[Suggestion]:
    """Suggestions for a number of GPUs typed before the beginning of their name: to own them, and the models they can run."""
    typed = MACHINES.fullmatch(wanted)
    if typed is None or not (typed["owned"] or typed["count"]):
        return
    count = int(typed["count"] or 1)
    named = [one.value for one in suggestions if one.kind == "gpu" and f" {typed['name']}" in f" {one.value.casefold()}"]
    owned = [Suggestion("setting", f"own={machines_text([machine(name, count)])}", "counts as your own: no rent") for name in named]
    run = [Suggestion("machines", f"{count} × {name}", "what they can run") for name in named]
    yield from [*owned, *run] if typed["owned"] else [*run, *owned]


def _amounts(wanted: str, fields: Sequence[Field]) -> list[Suggestion]:
    """Settings of the fields that a number was typed with: before or after a name of theirs, else their unit."""
    first, _, after = wanted.partition(" ")
    before, _, last = wanted.rpartition(" ")
    amounts = {name.strip(): amount for name, amount in ((after, first), (before, last)) if amount[:1].isdigit()}
    fields = [field for field in fields if not field.picked and field.kind not in {"names", "machines"}]
    named = [(one, amounts[name]) for one in fields for name in _names(one) if name in amounts]
    counted = [(one, amounts[one.unit.casefold()]) for one in fields if one.unit.casefold() in amounts]
    return [Suggestion("setting", f"{field.label}={amount}", field.about) for field, amount in dict(named or counted).items()]


def _names(field: Field) -> set[str]:
    """Names of a field with an amount beside them: 'p95 total' and 'p95', which stands for all labels that begin so, its key, and what people call it."""
    label = field.label.casefold()
    return {label, label.partition(" ")[0], field.key, *ALSO.get(field.key, "").split()}


def _is_folder_of_a_model(typed: str) -> bool:
    """True if a folder of this name here holds a model: few begin its path with a dot."""
    try:
        return Path(typed, "config.json").is_file()
    except (OSError, ValueError):  # too long, or with a character that no name has
        return False


def _score(search: FuzzySearch, wanted: str, suggestion: Suggestion) -> float:
    name = suggestion.value.casefold()
    if name == wanted:
        return EXACT
    if name.startswith(wanted):
        goes_on = wanted[-1].isdigit() and re.match(r"[\d.]", name[len(wanted) :])
        return BEGINS if goes_on else BEGINS + 1
    by_name = search.match(wanted, name)[0]
    words, plain = f"{name} {suggestion.detail} {suggestion.also}".casefold(), SIGNS.sub("", name)
    if suggestion.kind == "field" and set(wanted.split()) <= set(WORD.findall(words)):
        return HAS_PARTS
    if (parts := set(PART.findall(wanted))) and parts <= set(PART.findall(name)):
        return HAS_PARTS
    return by_name or (1.0 if all(word in words or (SIGNS.sub("", word) or word) in plain for word in wanted.split()) else 0.0)


def setting(text: str, workload: Mapping[str, Any]) -> dict[str, Any]:
    """Changes of `workload` that 'key=value', or several with blanks between, spell; keys by their names, or as the form calls them.

    Raises ValueError with what is wrong and the nearest keys.
    """
    fields: Sequence[Field] = spec.fields_for(workload)
    names = {name.casefold() for one in fields for name in (one.key, one.label)} | KNOWN_KEYS
    parts: list[str] = []
    for part in BEFORE_KEY.split(text.strip()):
        if parts and part.partition("=")[0].casefold() not in names:
            parts[-1] += f" {part}"
        else:
            parts.append(part)
    return {key: value for part in parts for key, value in _setting(part, fields).items()}


def _setting(text: str, fields: Sequence[Field]) -> dict[str, Any]:
    name, _, given = text.partition("=")
    wanted = name.strip().casefold()
    exact = [one for one in fields if wanted in {one.key.casefold(), one.label.casefold()}]
    near = exact or [one for one in fields if wanted and (one.key.startswith(wanted) or one.label.casefold().startswith(wanted))]
    if not near:
        hints = nearest_names(wanted, dict.fromkeys((*(one.key for one in fields), *(one.label for one in fields))))
        if "." in wanted or wanted in KNOWN_KEYS:
            return {wanted: value_of(given.strip()) if given.strip() else None}
        raise ValueError(f"there is no key {name.strip()!r}" + (f"; did you mean {' or '.join(hints)}?" if hints else "."))
    field = near[0]
    value = field.read(given)
    if field.kind in {"choice", "switch"} and field.choices and value is not None and given.strip() not in field.choices:
        raise ValueError(f"{field.label} is one of {', '.join(field.choices)}.")
    return {field.key: value}


def _known_keys() -> frozenset[str]:
    from planner.workload.tasks import Workload

    return frozenset(Workload.__struct_fields__)


KNOWN_KEYS = _known_keys()
"""Keys of a workload, also those that the form does not show."""
