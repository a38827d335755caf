"""Node types that are not rented: owned machines, and GPUs that a capital can buy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from planner.engine.answers.plan import OwnedAnswer
from planner.engine.evaluate.task import Supply
from planner.engine.money import bought_usd, depreciation_usd_per_h, running_usd_per_h
from planner.errors import Problems, UserError
from planner.hardware.catalogue.gpus import Gpu
from planner.hardware.catalogue.interconnects import most_in_host
from planner.units import usd_text
from planner.workload.hardware.owned import Own, Owning
from planner.workload.tasks import Workload


class OwnedNode(msgspec.Struct, frozen=True):
    """Costs of one GPU that is not rented, in dollars and dollars per hour."""

    bought: bool
    price_usd: float | None
    power_w: float
    running_usd_per_h: float
    depreciation_usd_per_h: float | None
    nvlink: bool | None
    words: str
    power_limit_w: float | None = None
    """Power cap of the GPU; None: that of the workload, or the vendor's."""

    @property
    def usd_per_h(self) -> float:
        """Power, hosting and depreciation."""
        return self.running_usd_per_h + (self.depreciation_usd_per_h or 0.0)

    def answer(self, gpus: int) -> OwnedAnswer:
        """Costs of `gpus` such GPUs."""
        lost, price = self.depreciation_usd_per_h, self.price_usd
        return OwnedAnswer(
            bought=self.bought,
            gpus=gpus,
            price_usd=None if price is None else price * gpus,
            power_w=self.power_w,
            running_usd_per_h=self.running_usd_per_h * gpus,
            depreciation_usd_per_h=None if lost is None else lost * gpus,
            nvlink=self.nvlink,
            power_limit_w=self.power_limit_w,
            words=self.words,
        )


class OwnedPool(msgspec.Struct, frozen=True):
    """Equal GPUs that are not rented."""

    gpu: Gpu
    per_node: int
    most: int
    node: OwnedNode | None
    """None: the power of the GPU is not known, so neither is its cost."""
    nvlink: bool | None


def owned_pools(workload: Workload, supply: Supply) -> Iterator[OwnedPool]:
    """Machines of `own`, then what `capex_usd` buys of every GPU that has a price. Raises `UserError` for an unknown GPU."""
    owning = workload.owning or Owning()
    considered = {supply.find_gpu(name).name for name in workload.gpus_considered}
    for own, gpu in zip(workload.own, parts_of(workload.own, supply), strict=True):
        if not considered or gpu.name in considered or supply.find_gpu(own.gpu).name in considered:
            per_node = 1 if own.mig else own.count
            most = min(own.gpus, workload.max_gpus or own.gpus)
            nvlink = None if own.link is None else own.link == "nvlink"
            yield OwnedPool(gpu, min(per_node, most), most, _own_node(own, gpu, owning), nvlink)
    if workload.capex_usd is not None:
        yield from _bought(workload, supply, owning, considered)


def parts_of(owned: Sequence[Own], supply: Supply) -> list[Gpu]:
    """The GPU of each of `owned`; raises `UserError` that names each one that is not known, or has no such slice."""
    problems, parts = Problems(""), list[Gpu]()
    for number, own in enumerate(owned):
        try:
            whole = supply.find_gpu(own.gpu)
        except UserError as error:
            problems.found += [one._replace(key=f"own[{number}].gpu") for one in error.problems]
            continue
        try:
            parts.append(supply.find_gpu(own.part))
        except UserError:
            known = ", ".join(profile.name for profile in whole.mig) or "none"
            problems.add(f"own[{number}].mig", f"{own.mig!r} is not a slice of {whole.name}; it has {known}.")
    problems.raise_if_any()
    return parts


def _own_node(own: Own, gpu: Gpu, owning: Owning) -> OwnedNode | None:
    nvlink = None if own.link is None else own.link == "nvlink"
    price = own.purchase_usd
    words = f"bought for {usd_text(price)} $ each" if price is not None else ""
    if price is None and gpu.purchase is not None:
        price = bought_usd(gpu.purchase.price_usd, owning.of_part(gpu.of_whole))
        words = f"{usd_text(price)} $ each ({gpu.purchase.kind} of {gpu.purchase.as_of})"
    return _node(gpu, owning, price, own.power_limit_w, words or "loss in value left out: no price is known", nvlink, bought=False)


def _bought(workload: Workload, supply: Supply, owning: Owning, considered: set[str]) -> Iterator[OwnedPool]:
    for gpu in supply.gpus:
        if gpu.purchase is None or (considered and gpu.name not in considered):
            continue
        price = bought_usd(gpu.purchase.price_usd, owning)
        most = int((workload.capex_usd or 0.0) // price)
        most = min(most, workload.max_gpus) if workload.max_gpus else most
        if most < 1:
            continue
        per_node = min(most_in_host(gpu), 2 ** int(math.log2(most)))
        parts = "" if owning.server_usd or owning.network_usd else ", without servers"
        words = f"{usd_text(price)} $ each ({gpu.purchase.kind} of {gpu.purchase.as_of}{parts})"
        yield OwnedPool(gpu, per_node, most, _node(gpu, owning, price, None, words, None, bought=True), None)


def _node(
    gpu: Gpu, owning: Owning, price: float | None, limit_w: float | None, words: str, nvlink: bool | None, *, bought: bool
) -> OwnedNode | None:
    limit_of_part_w = limit_w / gpu.of_whole if limit_w else None
    power = min(limit_of_part_w, gpu.tdp_w) if limit_of_part_w and gpu.tdp_w else limit_of_part_w or gpu.tdp_w
    if power is None:
        return None
    owning = owning.of_part(gpu.of_whole)
    lost = None if price is None else depreciation_usd_per_h(price, owning)
    kept = f"; residual {owning.residual:.0%}" if owning.residual else ""
    terms = f"{words}; {owning.life_years:g} years{kept}; {power:.0f} W at {owning.usd_per_kwh:g} $/kWh, PUE {owning.pue:g}"
    return OwnedNode(bought, price, power, running_usd_per_h(power, owning), lost, nvlink, terms, limit_w)
