"""Owned machines as listed by clusters: Slurm's `sinfo`, node labels of Kubernetes, or TOML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from planner.errors import Problem, Problems, UserError, nearest_names, shown
from planner.reading import parse_json, parse_toml, read_text
from planner.schema import read_struct
from planner.workload.hardware.owned import Own

MOST_BYTES = 1 << 26
"""Largest size of a file; a large cluster's node objects are tens of kilobytes each."""
SINFO = 'sinfo -N -h -o "%N %G %T"'
"""Command whose output is read; its columns, in any order, have a node (or without -N a list of nodes), GRES and state."""
OUT_OF_USE = ("down", "drain", "fail", "maint", "powered_down", "future", "reboot", "unknown")
"""Beginnings of the states of Slurm in which a node takes no jobs (slurm.schedmd.com/sinfo.html)."""
MOST_NAMES = 1_000_000
"""Maximum number of nodes read from one file, those of every partition counted each time."""
MOST_BRACKETS = 2
"""Maximum number of ranges in one name: 'rack[0-3]n[01-16]'."""
MOST_CALLED = 6
"""Maximum number of GPUs that are named where a spelling matches the names of several."""
_HOST = re.compile(r"(?:[^,\[\]]|\[[^\]]*\])+")
_GRES = re.compile(r"gpu:(?:(?P<type>[^:,()\s]+):)?(?P<count>\d+)")
_MIG_PROFILE = re.compile(r"(?<!\d)(\d+)g[._-](\d+)gb", re.IGNORECASE)
"""MIG profile in a name; matched only from the first digit, because 5,000 digits would be searched from each."""
PRODUCT, COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"
"""Labels of NVIDIA's GPU feature discovery (github.com/NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery)."""
_MIG_COUNT = re.compile(r"nvidia\.com/mig-(\d+g\.\d+gb)\.count")

FindPart = Callable[[str], str | None]
"""A spelling -> the canonical name of a GPU; None if no GPU, or more than one, has that name."""


class OwnFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A TOML file of machines: [[own]] tables."""

    own: list[Own]


def read_inventory(path: Path, find_part: FindPart, known: tuple[str, ...]) -> list[Own]:
    """Machines in the file at `path`, equal ones together; `known`: spellings to suggest.

    Raises `UserError` for a file of none of the three kinds, and for each unknown GPU.
    """
    text, where = read_text(path, most_bytes=MOST_BYTES), str(path)
    if path.suffix == ".toml":
        found = list(read_struct(OwnFile, parse_toml(text, where), where).own)
    elif text.lstrip().startswith(("{", "[")):
        found = list(_of_kubernetes(parse_json(text.encode(), where), where))
    else:
        found = list(_of_slurm(text))
    if not found:
        message = f"lists no GPU: it has to be TOML with [[own]] tables, `{SINFO}`, or `kubectl get nodes -o json`."
        raise UserError(Problem(where, "", message))
    return _named(found, find_part, known, where)


def _of_slurm(text: str) -> Iterator[Own]:
    """One machine per node; a node in several partitions counts once, and one that takes no jobs is left out."""
    seen: set[str] = set()
    left = MOST_NAMES
    for line in text.splitlines():
        words = line.replace("|", " ").split()
        gres = next((word for word in words if word.startswith("gpu:")), None) or next(
            (word for word in words if ",gpu:" in word), None
        )
        others = [word for word in words if word != gres]
        state = others[-1].casefold() if len(others) > 1 else ""
        if gres is None or not others or state.startswith(OUT_OF_USE):
            continue
        named = list(islice(_hosts(others[0]), left))
        left -= len(named)
        nodes = set(named) - seen
        seen |= nodes
        for match in _GRES.finditer(gres):
            name, profile = _without_profile(match["type"] or "")
            if nodes and (count := _count(match["count"])):
                yield Own(gpu=name, count=count, nodes=len(nodes), mig=profile)


def _hosts(listed: str) -> Iterator[str]:
    """Every node of a list as `sinfo` writes it without -N (man Slurm::Hostlist): n01, n03, n04 of 'n[01,03-04]'."""
    for entry in _HOST.findall(listed):
        before, bracket, after = entry.partition("[")
        if not bracket or entry.count("[") > MOST_BRACKETS:
            yield entry
            continue
        ranges, _, behind = after.partition("]")
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            for number in range(_count(first), _count(last or first) + 1):
                name = f"{before}{number:0{len(first)}d}{behind}"
                yield from _hosts(name) if "[" in behind else (name,)


def _of_kubernetes(document: Any, where: str) -> Iterator[Own]:
    """One machine per node, by its labels; nodes without a GPU are left out."""
    nodes = document.get("items", [document]) if isinstance(document, Mapping) else document
    if not isinstance(nodes, list):
        raise UserError(Problem(where, "items", f"{shown(nodes)} is not a list of nodes."))
    for node in nodes:
        if isinstance(node, Mapping):
            yield from _of_node(node)


def _of_node(node: Mapping[str, Any]) -> Iterator[Own]:
    labels = _table(_table(node, "metadata"), "labels")
    if _table(node, "spec").get("unschedulable") or not isinstance(labels.get(PRODUCT), str):
        return
    product = str(labels[PRODUCT])
    name, profile = _without_profile(product.removesuffix("-SHARED"))
    slices = {match[1]: _count(count) for key, count in labels.items() if (match := _MIG_COUNT.fullmatch(key))}
    if profile or not any(slices.values()):
        slices = {profile: _count(labels.get(COUNT))}
    yield from (Own(gpu=name, count=number, mig=cut) for cut, number in slices.items() if number)


def _count(text: object) -> int:
    """Number of GPUs in a text of one to six digits; 0 for another text."""
    return int(str(text)) if re.fullmatch(r"[0-9]{1,6}", str(text)) else 0


def _table(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = given.get(key)
    return found if isinstance(found, Mapping) else {}


def _without_profile(name: str) -> tuple[str, str | None]:
    """('NVIDIA-A100-SXM4-80GB', '3g.40gb') of 'NVIDIA-A100-SXM4-80GB-MIG-3g.40gb'."""
    match = _MIG_PROFILE.search(name)
    if match is None:
        return name, None
    whole = re.sub(r"[-_.]?(mig)?[-_.]?$", "", name[: match.start()], flags=re.IGNORECASE)
    return whole, f"{match[1]}g.{match[2]}gb"


def _named(found: list[Own], find_part: FindPart, known: tuple[str, ...], where: str) -> list[Own]:
    """`found` with canonical names, equal machines together."""
    problems, named = Problems(where), Counter[Own]()
    for own in found:
        part = find_part(own.gpu)
        if part is None:
            message = f"{own.gpu!r} names no GPU or several; write the machines as TOML: [[own]] gpu = … count = {own.count}."
            begun = (name for name in known if plain_spelling(name).startswith(f"{plain_spelling(own.gpu)}-"))
            called = filter(None, dict.fromkeys(map(find_part, begun)))
            problems.add(
                "gpu",
                message,
                tuple(islice(called, MOST_CALLED)) or nearest_names(own.gpu.removeprefix("nvidia").strip("-_ "), known),
            )
        else:
            named[msgspec.structs.replace(own, gpu=part, nodes=1)] += own.nodes
    problems.found = list(dict.fromkeys(problems.found))
    problems.raise_if_any()
    return [msgspec.structs.replace(own, nodes=nodes) for own, nodes in named.items()]


def plain_spelling(name: str) -> str:
    """`name` as spelled in inventories: small letters and digits, separated by '-', without the vendor."""
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-").removeprefix("nvidia-")


def part_finder(spellings: Mapping[str, str]) -> FindPart:
    """Look-up by plain spelling, or by the unique beginning of one; `spellings`: every accepted spelling -> canonical name."""
    plain: dict[str, str] = {}
    for spelling, name in spellings.items():
        plain.setdefault(plain_spelling(spelling), name)

    def find(given: str) -> str | None:
        wanted = plain_spelling(given)
        if wanted in plain:
            return plain[wanted]
        parts = {name for spelling, name in plain.items() if wanted and (spelling == wanted or spelling.startswith(f"{wanted}-"))}
        return parts.pop() if len(parts) == 1 else None

    return find
