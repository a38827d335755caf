"""Tools for agents: their inputs and outputs as structs, from which the schemas are derived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from planner.api.planner import Planner
from planner.engine.advice.advice import Advice
from planner.engine.advice.observation import Observed
from planner.engine.answers.answer import Answer
from planner.engine.answers.memory import MemoryDetail
from planner.engine.answers.plan import Plan
from planner.errors import Problem, UserError
from planner.hardware.prices.offers import Offer
from planner.numbers import Name
from planner.present.cells import Section
from planner.present.files.document import as_markdown
from planner.schema import read_struct
from planner.workload.tasks import Objective, Request, Workload

Rows = Annotated[int, Meta(ge=1, le=200)]


class PlanInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the tool `plan`."""

    workload: Name | Workload
    """The name of a preset (`gpu-planner presets`), or the workload itself."""
    changes: dict[str, Any] = {}
    """Keys of the workload to change, dotted where nested: {"targets.p95_request_s": 3}."""
    gpus: list[Name] = []
    """Consider only these GPUs; empty: the whole catalogue."""
    objective: Objective | None = None
    top: Rows = 5
    """Largest number of rows, best first."""


class EstimateInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the tool `estimate`: the candidates."""

    requests: Annotated[list[Request], Meta(min_length=1, max_length=1000)]


class MemoryInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the tool `memory`: a workload on one GPU type."""

    workload: Name | Workload
    gpu: Name
    changes: dict[str, Any] = {}


class OffersInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the tool `offers`."""

    gpu: Name | None = None
    provider: Name | None = None
    top: Rows = 20
    """Largest number of offers, cheapest GPU hour first."""


class RightsizeInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of the tool `rightsize`: telemetry of the GPUs to judge."""

    observed: Annotated[list[Observed], Meta(min_length=1, max_length=10_000)]
    workload: Name | Workload | None = None
    """Workload on each GPU, or the name of its preset; cheaper GPUs, batches and formats are then checked."""
    tokens_per_s: float | None = None
    usd_per_h: float | None = None


class Estimates(msgspec.Struct, frozen=True):
    """An answer for every request, in order."""

    answers: list[Answer]


class Offers(msgspec.Struct, frozen=True):
    """Rental offers; prices are in USD per hour for the whole instance."""

    offers: list[Offer]


class ToolAnswer(NamedTuple):
    """An answer as text for a reader and as data for a program."""

    text: str
    data: msgspec.Struct


class Tool(NamedTuple):
    """One tool: its name, a sentence on when to use it, its input and output."""

    name: str
    about: str
    given: type[msgspec.Struct]
    answer: type[msgspec.Struct]
    run: Callable[[Planner, Any], ToolAnswer]


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """JSON Schema of `kind` with an object at its root, as the protocol requires."""
    found = msgspec.json.schema(kind)
    inner: dict[str, Any] = found["$defs"].pop(kind.__name__)
    return {**inner, "$defs": found["$defs"]} if found["$defs"] else inner


def call(planner: Planner, name: str, given: dict[str, Any]) -> ToolAnswer:
    """Answer of the tool `name`; raises `UserError` with all problems of its arguments."""
    tool = next((tool for tool in TOOLS if tool.name == name), None)
    if tool is None:
        raise UserError(Problem("", "", f"there is no tool {name!r}; there are {', '.join(tool.name for tool in TOOLS)}."))
    return tool.run(planner, read_struct(tool.given, given, name))


def _plan(planner: Planner, given: PlanInput) -> ToolAnswer:
    found = planner.plan(_named(given.workload), given.changes, gpus=given.gpus, objective=given.objective, top=given.top)
    return ToolAnswer(repr(found), found.answer)


def _estimate(planner: Planner, given: EstimateInput) -> ToolAnswer:
    found = planner.estimate(*given.requests)
    return ToolAnswer(repr(found), Estimates(list(found)))


def _memory(planner: Planner, given: MemoryInput) -> ToolAnswer:
    found = planner.memory(_named(given.workload), given.gpu, given.changes)
    return ToolAnswer(repr(found), found.answer)


def _offers(planner: Planner, given: OffersInput) -> ToolAnswer:
    wanted = None if given.provider is None else given.provider.casefold()
    found = [offer for offer in planner.offers(given.gpu) if wanted is None or offer.provider.casefold() == wanted]
    shown = sorted(found, key=lambda offer: offer.usd_per_gpu_h)[: given.top]
    lines = [
        f"{one.provider} {one.instance}: {one.gpus} × {one.gpu}, {one.usd_per_gpu_h:.2f} $/GPU-h, {one.as_of}" for one in shown
    ]
    return ToolAnswer("\n".join(lines) or "no offer", Offers(shown))


def _rightsize(planner: Planner, given: RightsizeInput) -> ToolAnswer:
    from planner.present.machine.advice import advice_sections

    workload = None if given.workload is None else planner.workload(_named(given.workload))
    found = planner.session.rightsize(given.observed, workload=workload, tokens_per_s=given.tokens_per_s, usd_per_h=given.usd_per_h)
    sections: Sequence[Section] = advice_sections(found)
    return ToolAnswer(as_markdown(sections), found)


def _named(workload: str | Workload) -> str | Workload:
    """`workload`, which must not name a file: an agent has other tools to read files."""
    if isinstance(workload, str) and ("/" in workload or "\\" in workload or workload.endswith(".toml")):
        raise UserError(Problem("", "workload", f"{workload!r} is a path; give a preset's name, or the workload itself."))
    return workload


TOOLS = (
    Tool(
        "plan",
        "Rank GPUs, counts and layouts for a transformer workload: what fits, how fast, at what cost, with ranges and reasons.",
        PlanInput,
        Plan,
        _plan,
    ),
    Tool(
        "estimate",
        "Predict memory, speed and cost of specified candidates: model, gpu, task, and as much of the layout as is known.",
        EstimateInput,
        Estimates,
        _estimate,
    ),
    Tool(
        "memory",
        "List the items of GPU memory of a workload on one GPU type, each with its formula.",
        MemoryInput,
        MemoryDetail,
        _memory,
    ),
    Tool(
        "offers",
        "List rental prices of GPUs, cheapest GPU hour first, each with its date and source.",
        OffersInput,
        Offers,
        _offers,
    ),
    Tool(
        "rightsize",
        "Judge how GPUs are used and recommend to batch, slice, quantise, move, return or keep them, with the saving of each.",
        RightsizeInput,
        Advice,
        _rightsize,
    ),
)
