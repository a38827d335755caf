"""First content of the screen, a preset or the state at the last end, as questions to a session. Imports nothing of Textual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.present.choice.facets import FacetNames
    from planner.session import Session
    from planner.workload.presets import Preset


class ScreenState(NamedTuple):
    """Parts of a saved screen that determine its plan."""

    preset: str
    workload: dict[str, Any]
    filter_text: str
    basis: BasisChoice


class PlanQuestion(NamedTuple):
    """A question to the session for a plan."""

    workload: dict[str, Any]
    where: str
    """File that the workload came from."""
    basis: BasisChoice


def read_saved(left: Mapping[str, Any]) -> ScreenState | None:
    """Parts of `left`, a file that somebody may have edited; None if they cannot be used."""
    name, workload = left.get("preset"), left.get("workload")
    if not isinstance(name, str) or not isinstance(workload, dict):
        return None
    return ScreenState(name, workload, str(left.get("filter") or ""), "spec" if left.get("basis") == "spec" else "measured")


def first_question(session: Session, left: ScreenState | None, preset: str) -> PlanQuestion:
    """Question for the first plan: of the screen as it was `left`, else of `preset`. Raises `UserError`."""
    from planner.present.choice.facets import read_facets

    if left is None:
        opened, stated = load_preset(session, preset)
        return PlanQuestion(stated, str(opened.path), "measured")
    opened, _ = load_preset(session, left.preset)
    session.workload(left.workload, str(opened.path))
    narrowed = read_facets(left.filter_text, facet_names(session)).over(left.workload) if left.filter_text else left.workload
    return PlanQuestion(narrowed, str(opened.path), left.basis)


def load_preset(session: Session, name: str) -> tuple[Preset, dict[str, Any]]:
    """Preset, and the stated keys of its workload."""
    import msgspec

    preset = session.presets.load(name)
    stated: dict[str, Any] = _without_none(msgspec.to_builtins(preset.workload))
    return preset, stated


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(entry) for key, entry in value.items() if entry is not None}
    return value


def facet_names(session: Session) -> FacetNames:
    """Every spelling of the GPUs, and the providers."""
    from planner.hardware.catalogue.gpus import spellings
    from planner.present.choice.facets import FacetNames

    gpus = {spelling: gpu.name for gpu in session.gpus.all for spelling in spellings(gpu)}
    return FacetNames(
        gpus,
        sorted({offer.provider for offer in session.offers}),
        sorted({offer.region for offer in session.offers}),
        vendors={
            gpu.vendor.casefold(): [one.name for one in session.gpus.all if one.vendor == gpu.vendor] for gpu in session.gpus.all
        },
        only_named=frozenset(gpu.name for gpu in session.gpus.all if gpu.only_named),
    )
