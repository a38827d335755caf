"""Rental offers: all there, resolved to catalogue parts, doubts noted, faults named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planner.errors import UserError
from planner.hardware.catalogue.gpus import GpuCatalogue, load_gpus
from planner.hardware.prices.offers import Offer, load_offers
from planner.paths import presets_folder


@pytest.fixture(scope="module")
def gpus() -> GpuCatalogue:
    return load_gpus(presets_folder() / "gpus")


@pytest.fixture(scope="module")
def offers(gpus: GpuCatalogue) -> tuple[Offer, ...]:
    return load_offers(presets_folder() / "offers", gpus)


def _one(offers: tuple[Offer, ...], instance: str, region: str | None = None) -> Offer:
    (found,) = [offer for offer in offers if offer.instance == instance and region in {None, offer.region}]
    return found


def test_all_offers_are_there(offers: tuple[Offer, ...], gpus: GpuCatalogue) -> None:
    assert len(offers) >= 317
    assert len({offer.provider for offer in offers}) >= 20
    assert {offer.gpu for offer in offers} <= {gpu.name for gpu in gpus.all}


def test_every_offer_has_a_price_a_source_and_a_date(offers: tuple[Offer, ...]) -> None:
    for offer in offers:
        prices = (offer.on_demand_usd_per_h, offer.spot_usd_per_h, offer.reserved_1y_usd_per_h, offer.reserved_3y_usd_per_h)
        assert any(price is not None for price in prices), offer
        assert all(price is None or 0.03 <= price / offer.gpus <= 30 for price in prices), offer
        assert len(offer.source) > 20, offer
        assert re.fullmatch(r"\d{4}(-\d\d-\d\d)?", offer.as_of), offer
        if offer.spot_usd_per_h is not None and offer.on_demand_usd_per_h is not None:
            assert offer.spot_usd_per_h < offer.on_demand_usd_per_h, offer


def test_prices_people_check_first(offers: tuple[Offer, ...]) -> None:
    assert _one(offers, "p5.48xlarge").on_demand_usd_per_h == 55.04
    assert _one(offers, "p5.48xlarge").gpu == "H100 SXM5 80GB"
    assert _one(offers, "p4de.24xlarge").on_demand_usd_per_h == 27.4471
    assert _one(offers, "p3.2xlarge").gpu == "V100 SXM2 16GB"
    assert _one(offers, "Standard_NC24ads_A100_v4").gpu == "A100 80GB PCIe"
    assert _one(offers, "p5e.48xlarge").on_demand_usd_per_h is None


def test_placeholder_spot_prices_are_left_out_and_said(offers: tuple[Offer, ...]) -> None:
    for instance, region in (("Standard_ND96isr_H100_v5", None), ("p6-b300.48xlarge", "us-west-2")):
        offer = _one(offers, instance, region)
        assert offer.spot_usd_per_h is None
        assert "left out" in offer.note
    assert "LOW CONFIDENCE" in _one(offers, "a4-highgpu-8g").note


def test_nvlink_is_stated_where_it_is_known(offers: tuple[Offer, ...]) -> None:
    assert _one(offers, "p3.8xlarge").nvlink is True
    assert _one(offers, "p3.2xlarge").nvlink is None
    assert _one(offers, "g6e.48xlarge").nvlink is False
    assert _one(offers, "Standard_ND96isr_MI300X_v5").nvlink is True
    assert _one(offers, "Standard_NC48ads_A100_v4").nvlink is None


def test_only_per_gpu_prices_scale(offers: tuple[Offer, ...]) -> None:
    scaling = {offer.provider for offer in offers if offer.gpus_max is not None}
    assert scaling == {"runpod", "crusoe"}
    assert all(offer.gpus == 1 for offer in offers if offer.gpus_max is not None)


ENTRY = '[[offer]]\nprovider = "p"\ninstance = "{instance}"\ngpu = "{gpu}"\ngpus = 1\nregion = "r"\nas_of = "2026-01-01"\nsource = "s"\n'


def test_aliases_become_canonical_names(tmp_path: Path, gpus: GpuCatalogue) -> None:
    (tmp_path / "p.toml").write_text(ENTRY.format(instance="i", gpu="h100") + ENTRY.format(instance="j", gpu="4090"))
    first, second = load_offers(tmp_path, gpus)
    assert (first.gpu, first.nvlink) == ("H100 SXM5 80GB", None)
    assert (second.gpu, second.nvlink) == ("RTX 4090", False)


def test_every_fault_is_named(tmp_path: Path, gpus: GpuCatalogue) -> None:
    once = ENTRY.format(instance="i", gpu="H100")
    (tmp_path / "p.toml").write_text(once + once + ENTRY.format(instance="j", gpu="H100 SMX"))
    (tmp_path / "q.toml").write_text(ENTRY.format(instance="k", gpu="H100").replace("gpus = 1", "gpus = 0") + "spot_usd_h = 1\n")
    with pytest.raises(UserError) as caught:
        load_offers(tmp_path, gpus)
    text = str(caught.value)
    assert "offer[i]: is given twice for H100 SXM5 80GB" in text
    assert "offer[j].gpu: 'H100 SMX' is not a known GPU. Did you mean 'H100 SXM5 80GB'" in text
    assert "offer[k].gpus: 0 is not accepted; it has to be a whole number from 1 to 1,000,000" in text
    assert "offer[k].spot_usd_h: unknown key. Did you mean 'spot_usd_per_h'" in text
    assert len(caught.value.problems) == 4
