"""Records of providers: every one that has offers, each network with a source, filters by what is known, faults named."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest
from engine_sample import plan, session

from planner.errors import UserError
from planner.hardware.prices.providers import NONE_SOLD, Kind, load_providers, with_discounts
from planner.workload.tasks import ProviderKind

PROVIDERS, OFFERS = session().providers, session().offers


def test_whoever_has_offers_has_a_record() -> None:
    assert {offer.provider for offer in OFFERS} - set(PROVIDERS) == set(), "presets/providers"
    assert get_args(Kind) == get_args(ProviderKind)


def test_every_offer_says_what_joins_its_nodes() -> None:
    for offer in OFFERS:
        network = PROVIDERS[offer.provider].network_of(offer.instance)
        assert network is not None
        assert len(network.source) > 20
        if network.fabric != NONE_SOLD:
            assert network.node_bytes_per_s is not None
            assert 0.3e9 <= network.node_bytes_per_s / (offer.gpus_max or offer.gpus) <= 100e9, offer


def test_rates_people_know() -> None:
    """3,200 Gb/s of EFA are 400 a GPU: 50 GB/s; A3 Mega's eight adapters of 200 Gb/s; ND A100 v4's of 200."""
    rates = {("aws", "p5.48xlarge"): 50e9, ("gcp", "a3-megagpu-8g"): 25e9, ("azure", "Standard_ND96amsr_A100_v4"): 25e9}
    rates |= {
        ("aws", "p4d.24xlarge"): 6.25e9,
        ("azure", "Standard_ND96isr_H100_v5"): 50e9,
        ("nebius", "gpu-h100-sxm_8gpu-128vcpu-1600gb"): 50e9,
    }
    for (provider, instance), rate in rates.items():
        network = PROVIDERS[provider].network_of(instance)
        assert network is not None
        assert network.node_bytes_per_s == 8 * rate, instance
    for provider, instance in (("vast-ai", "8x-H100_SXM"), ("runpod", "NVIDIA H100 SXM x1"), ("lambda", "gpu_8x_h100_sxm5")):
        network = PROVIDERS[provider].network_of(instance)
        assert network is not None
        assert network.fabric == NONE_SOLD


def test_a_region_is_in_a_country() -> None:
    assert PROVIDERS["aws"].countries_of("us-east-1") == {"US"}
    assert PROVIDERS["azure"].countries_of("westus3") == {"US"}
    assert PROVIDERS["nebius"].countries_of("eu-north1") == {"FI"}
    assert PROVIDERS["gcp"].countries_of("europe-west4") == {"NL"}
    assert PROVIDERS["verda"].countries_of("any") == {"FI", "IS"}
    assert not PROVIDERS["aws"].countries_of("mars-1"), "not known is not everywhere"


def test_an_advertised_discount_prices_a_commitment_and_says_so() -> None:
    (offer,) = [offer for offer in OFFERS if offer.instance == "a4-highgpu-8g"]
    assert offer.reserved_3y_usd_per_h == pytest.approx(0.45 * 90.216)
    assert offer.by_discount == ["reserved_3y_usd_per_h"]
    assert "55 %" in offer.note
    (published,) = [offer for offer in OFFERS if offer.instance == "g5.48xlarge"]
    assert published.by_discount == []
    (again,) = with_discounts([offer], PROVIDERS)
    assert again == offer
    own = msgspec.structs.replace(offer, reserved_3y_usd_per_h=30.0, by_discount=[], note="")
    assert with_discounts([own], PROVIDERS) == (own,)


def test_a_listed_commitment_is_the_monthly_price_of_its_source_by_the_hour() -> None:
    """Google's billing catalogue, us-central1: one A100 with its host 1,689.3711392 and 938.56707798 $ a month; us-east4: eight H100."""
    listed = {offer.instance: offer for offer in OFFERS if offer.provider == "gcp" and offer.reserved_1y_usd_per_h}
    for instance, one, three in (
        ("a2-highgpu-1g", 1689.3711392, 938.56707798),
        ("a2-megagpu-16g", 25634.2950272, 14241.71597664),
        ("a3-highgpu-8g", 44840.32514976, 28392.60150768),
        ("g2-standard-4", 325.07215214, 232.19438719),
        ("g2-standard-32", 797.63967862, 569.74257075),
    ):
        offer = listed[instance]
        assert (offer.reserved_1y_usd_per_h, offer.reserved_3y_usd_per_h) == pytest.approx((one / 730, three / 730), abs=1e-5)
        assert "billing catalogue of 202" in offer.note
        assert not offer.by_discount
    by_hour = [offer.on_demand_usd_per_h for offer in listed.values()]
    assert all(
        hour and offer.reserved_1y_usd_per_h < hour
        for hour, offer in zip(by_hour, listed.values(), strict=True)
        if offer.reserved_1y_usd_per_h
    )


def test_what_comes_with_a_contract_alone_says_so_of_the_first_node() -> None:
    """Crusoe's help: H100 SXM by reserved-instance agreement; H200 is on its price list by the hour."""
    for gpu, needs in (("H100 SXM5 80GB", True), ("H200 SXM", False)):
        row = plan("llama-3.1-8b-lora", providers=["crusoe"], gpus_considered=[gpu]).rows[0]
        assert row.answer.network is not None
        assert row.answer.network.by_agreement is needs
        assert ("contract with crusoe" in row.why) is needs


def test_every_fault_of_a_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        '[[provider]]\nname = "mine"\nkind = "gpu-cloud"\ncountries = ["Finland"]\nas_of = "2026"\nsource = "s"\n'
        '[[provider.network]]\ninstances = ["*"]\nfabric = "EFA"\nas_of = "2026"\nsource = "s"\n'
        '[[provider]]\nname = "mine"\nkind = "gpu-cloud"\nas_of = "2026"\nsource = "s"\n'
    )
    with pytest.raises(UserError) as wrong:
        load_providers(tmp_path)
    words = " ".join(problem.message for problem in wrong.value.problems)
    assert all(part in words for part in ("'Finland' is not an ISO 3166 code", "contradict each other", "is given twice"))
    assert load_providers(tmp_path / "absent") == {}
