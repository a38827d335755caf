"""A price catalogue's CSV becomes offers: parts by exact table, prices of one region, what is not certain left out and counted."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec
import pytest

from planner.errors import UserError
from planner.hardware.catalogue.gpus import GpuCatalogue, load_gpus
from planner.hardware.prices.catalogue import CataloguedOffers, PriceCatalogue, catalogued_offers, load_price_catalogue
from planner.hardware.prices.catalogue_rows import UnusablePrices
from planner.hardware.prices.offers import (
    Offer,
    changes,
    is_refreshed,
    load_offers,
    load_own_offers,
    share_of_change,
    with_own,
    write_offers,
)
from planner.hardware.prices.refresh import OfferFolder, base_url, chosen_providers, refresh
from planner.paths import presets_folder

HEAD = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice,AvailabilityZone"


@pytest.fixture(scope="module")
def gpus() -> GpuCatalogue:
    return load_gpus(presets_folder() / "gpus")


@pytest.fixture(scope="module")
def shipped(gpus: GpuCatalogue) -> tuple[Offer, ...]:
    return load_offers(presets_folder() / "offers", gpus)


@pytest.fixture(scope="module")
def catalogue(gpus: GpuCatalogue) -> PriceCatalogue:
    return load_price_catalogue(presets_folder() / "catalogues" / "skypilot.toml", gpus)


class Reader:
    def __init__(self, gpus: GpuCatalogue, shipped: tuple[Offer, ...], catalogue: PriceCatalogue) -> None:
        self.gpus, self.shipped, self.catalogue = gpus, shipped, catalogue

    def read(self, cloud: str, *lines: str, head: str = HEAD) -> CataloguedOffers:
        (provider,) = chosen_providers(self.catalogue, [cloud])
        return catalogued_offers(
            "\n".join((head, *lines)) + "\n",
            provider,
            self.catalogue,
            self.gpus,
            known=self.shipped,
            as_of="2026-11-20",
            source="a source",
        )

    def one(self, cloud: str, *lines: str) -> Offer:
        (found,) = self.read(cloud, *lines).offers
        return found


@pytest.fixture(scope="module")
def reader(gpus: GpuCatalogue, shipped: tuple[Offer, ...], catalogue: PriceCatalogue) -> Reader:
    return Reader(gpus, shipped, catalogue)


def test_every_name_of_the_tables_is_canonical(catalogue: PriceCatalogue, gpus: GpuCatalogue) -> None:
    tables = [catalogue.accelerators, *(table for one in catalogue.provider for table in (one.accelerators, one.parts))]
    names = [gpu for table in tables for gpu in table.values()]
    assert len(names) > 90
    assert all(gpus.find(name).name == name for name in names)
    assert len({one.cloud for one in catalogue.provider}) == len({one.provider for one in catalogue.provider}) == 15
    for one in catalogue.provider:
        for accelerator, _ in one.machines.values():
            assert accelerator in {**catalogue.accelerators, **one.accelerators}


def test_the_home_region_is_taken_and_the_span_of_the_others_told(reader: Reader) -> None:
    offer = reader.one(
        "aws",
        "p5.48xlarge,H100,8,192,2048,50.0,us-west-2,,19.0,usw2-az1",
        "p5.48xlarge,H100,8,192,2048,55.0,us-east-1,,18.0,use1-az1",
        "p5.48xlarge,H100,8,192,2048,55.0,us-east-1,,20.0,use1-az2",
        "p5.48xlarge,H100,8,192,2048,55.0,us-east-1,,40.0,use1-az3",
        "p5.48xlarge,H100,8,192,2048,70.0,sa-east-1,,,sae1-az1",
    )
    assert (offer.gpu, offer.gpus, offer.nvlink, offer.region) == ("H100 SXM5 80GB", 8, True, "us-east-1")
    assert (offer.on_demand_usd_per_h, offer.spot_usd_per_h) == (55.0, 20.0)
    assert "spot: median of 3 zones" in offer.note
    assert (offer.regions, offer.on_demand_min_usd_per_h, offer.on_demand_max_usd_per_h) == (3, 50.0, 70.0)
    assert (offer.vcpus, offer.memory_bytes, offer.as_of, offer.source) == (192, 2048 * 2**30, "2026-11-20", "a source")


def test_without_a_home_the_cheapest_region_is_taken(reader: Reader) -> None:
    dear, cheap = "a,H200,8,1,1,9.0,eu-north1,,4.0,", "a,H200,8,1,1,8.0,us-central1,,5.0,"
    offer = reader.one("nebius", dear, cheap)
    assert (offer.region, offer.on_demand_usd_per_h, offer.spot_usd_per_h) == ("us-central1", 8.0, 5.0)


def test_spot_prices_that_are_none_are_left_out(reader: Reader) -> None:
    offer = reader.one("runpod", "1x_A100-80GB_SECURE,A100-80GB,1.0,8.0,117.0,1.39,IN,,1.39,AP-IN-1")
    assert (offer.gpu, offer.tier, offer.spot_usd_per_h) == ("A100 80GB PCIe", "secure", None)
    assert reader.one("vast", '1x-H200-32-65536,H200,1,32,64.0,2.65,"France, FR, EU",,0.00,').spot_usd_per_h is None
    dearer = reader.one("aws", "p5.48xlarge,H100,8,192,2048,50.0,us-east-1,,51.0,use1-az1")
    assert (dearer.on_demand_usd_per_h, dearer.spot_usd_per_h) == (50.0, None)
    unlisted = reader.one("verda", "2B300.60V,B300,2.0,60.0,550.0,,FIN-03,,4.893,")
    assert (unlisted.on_demand_usd_per_h, unlisted.spot_usd_per_h) == (None, 4.893)


def test_names_that_mean_several_parts_are_decided_by_the_instance_or_not_at_all(reader: Reader) -> None:
    pcie = reader.one("lambda", "gpu_1x_h100_pcie,H100,1,26,200,2.49,us-east-1,,,")
    assert pcie.gpu == "H100 PCIe"
    found = reader.read(
        "lambda",
        "gpu_9x_h100_new,H100,9,26,200,2.49,us-east-1,,,",
        "gpu_9x_h100_new,H100,9,26,200,2.49,us-east-2,,,",
        "gpu_1x_h1000,H1000,1,26,200,2.49,us-east-1,,,",
        "gpu_part,L4,0.5,2,8,0.2,us-east-1,,,",
    )
    assert found.offers == []
    assert found.unknown == {"H100": 1, "H1000": 1, "0.5 of L4": 1}


def test_a_marketplace_says_form_and_memory_in_its_own_way(reader: Reader) -> None:
    def row(instance: str, accelerator: str, gpus: int, total_mib: int) -> str:
        return f"\"{instance}\",{accelerator},{gpus},32,64,1.0,here,\"{{'Gpus': [{{'MemoryInfo': {{'SizeInMiB': {total_mib}}}}}]}}\",0.00,"

    found = reader.read(
        "vast",
        row("2x-A100_SXM4-32-65536", "A100", 2, 81920),
        row("1x-A100_SXM4-32-65536", "A100", 1, 81920),
        row("1x-H100_NVL-32-65536", "H100", 1, 95830),
        row("2x-RTX_4070S_Ti-32-65536", "RTX4070", 2, 32752),
        row("1x-RTX_4090-32-65536", "RTX4090", 1, 24564),
        row("1x-RTX_4090-32-65536", "RTX4090", 1, 49140),
    )
    assert [(offer.instance[0], offer.gpu) for offer in found.offers] == [
        ("2", "A100 40GB SXM"),
        ("1", "A100 80GB SXM"),
        ("1", "H100 NVL"),
        ("2", "RTX 4070 Ti SUPER"),
        ("1", "RTX 4090"),
    ]
    assert found.unknown == {"RTX_4090 48GB": 1}


def test_hosts_and_their_gpus_priced_apart_are_added_up_zone_by_zone(reader: Reader) -> None:
    offer = reader.one(
        "gcp",
        "a3-highgpu-8g,,,208,1872,10.0,us-central1,,3.0,us-central1-a",
        "a3-highgpu-8g,,,208,1872,11.0,us-east4,,3.0,us-east4-a",
        "a3-highgpu-8g,,,208,1872,9.0,europe-west4,,3.0,europe-west4-b",
        ",H100,8,,,10.0,us-central1,H100,20.0,us-central1-a",
        ",H100,8,,,76.0,us-east4,H100,24.0,us-east4-a",
        ",H100,1,,,9.0,europe-west4,H100,3.0,europe-west4-b",
    )
    assert (offer.instance, offer.gpu, offer.gpus, offer.region) == ("a3-highgpu-8g", "H100 SXM5 80GB", 8, "us-east4")
    assert (offer.on_demand_usd_per_h, offer.spot_usd_per_h) == (87.0, 27.0)
    assert "1 of 2 regions left out: their list price is that of a commitment" in offer.note


def test_list_prices_of_commitments_are_not_taken_without_a_spot_price_either(reader: Reader) -> None:
    offer = reader.one(
        "gcp",
        "a3-highgpu-8g,,,208,1872,4.0,us-central1,,,us-central1-a",
        "a3-highgpu-8g,,,208,1872,8.0,us-east4,,,us-east4-a",
        ",H100,8,,,30.0,us-central1,H100,,us-central1-a",
        ",H100,8,,,72.0,us-east4,H100,,us-east4-a",
    )
    assert (offer.region, offer.on_demand_usd_per_h, offer.regions) == ("us-east4", 80.0, 1)


def test_a_spot_price_that_is_one_share_of_the_list_everywhere_is_a_placeholder(reader: Reader) -> None:
    flat = reader.one(
        "azure", "Standard_NC4as_T4_v3,T4,1,4,28,0.5,eastus,,0.1,", "Standard_NC4as_T4_v3,T4,1,4,28,0.6,westus,,0.12,"
    )
    assert flat.spot_usd_per_h is None
    assert "is a placeholder and left out" in flat.note
    real = reader.one("azure", "Standard_NC4as_T4_v3,T4,1,4,28,0.5,eastus,,0.1,", "Standard_NC4as_T4_v3,T4,1,4,28,0.6,westus,,0.2,")
    assert (real.region, real.spot_usd_per_h) == ("eastus", 0.1)


def test_one_price_everywhere_is_said_so(reader: Reader) -> None:
    same = reader.one("lambda", "gpu_1x_h100_pcie,H100,1,26,200,2.49,us-east-1,,,", "gpu_1x_h100_pcie,H100,1,26,200,2.49,asia-1,,,")
    assert (same.region, same.regions) == ("all", 2)


def test_reserved_prices_stay_and_say_of_when(reader: Reader, shipped: tuple[Offer, ...]) -> None:
    (before,) = (offer for offer in shipped if offer.instance == "g5.24xlarge")
    offer = reader.one("aws", "g5.24xlarge,A10G,4,96,384,8.5,us-east-1,,,use1-az1")
    assert (offer.reserved_1y_usd_per_h, offer.reserved_3y_usd_per_h) == (
        before.reserved_1y_usd_per_h,
        before.reserved_3y_usd_per_h,
    )
    assert f"reserved prices as shipped, of {before.as_of}" in offer.note


def test_a_memory_size_of_thousands_of_digits_is_none(reader: Reader) -> None:
    info = "\"'SizeInMiB': " + "9" * 5000 + '"'
    assert not reader.read("vast", f"a,H200,8,1,1,8.0,eu,{info},,").unusable


def test_lines_that_cannot_be_read_are_named_and_the_others_used(reader: Reader) -> None:
    found = reader.read(
        "nebius",
        "a,H200,8,1,1,cheap,eu,,,",
        "b,H200,8,1,1,nan,eu,,,",
        "c,H200,8,1",
        "d,H200,8,1,1,-3,eu,,,",
        "e,H200,8,1,1,8.0,eu,,,",
        "f,H200,1e8,1,1,8.0,eu,,,",
        "g,H200,8,1,1,1e-320,eu,,,",
    )
    assert [offer.instance for offer in found.offers] == ["e"]
    assert [line.split(":")[0] for line in found.unusable] == [f"line {number}" for number in (2, 3, 4, 5, 7, 8)]
    assert "Price 'cheap' is not a number" in found.unusable[0]
    for head in ("<html><body>Sign in</body></html>", "", HEAD.replace("SpotPrice", "Spot")):
        with pytest.raises(UnusablePrices, match="has no column"):
            reader.read("nebius", head=head)


def test_own_offers_replace_those_of_their_provider(
    tmp_path: Path, gpus: GpuCatalogue, shipped: tuple[Offer, ...], reader: Reader
) -> None:
    assert load_own_offers(tmp_path / "absent", gpus) == ()
    new = reader.read("nebius", 'a "b" \\ é,H200,8,1,1.5,8.0,eu-north1,,4.0,', "c,L40S,1,1,1,2.0,us-central1,,,").offers
    path = tmp_path / "nebius.toml"
    write_offers(path, new, gpus)
    own = load_own_offers(tmp_path, gpus)
    assert own == tuple(new)
    both = with_own(shipped, own)
    assert {offer.instance for offer in both if offer.provider == "nebius"} == {'a "b" \\ é', "c"}
    assert len(both) == len([offer for offer in shipped if offer.provider != "nebius"]) + 2


def test_a_file_that_would_be_refused_never_takes_the_place_of_a_good_one(
    tmp_path: Path, gpus: GpuCatalogue, reader: Reader
) -> None:
    path = tmp_path / "nebius.toml"
    good = reader.read("nebius", "c,L40S,1,1,1,2.0,us-central1,,,").offers
    write_offers(path, good, gpus)
    before = path.read_bytes()
    with pytest.raises(UserError, match="given twice"):
        write_offers(path, [*good, *good], gpus)
    assert path.read_bytes() == before
    assert is_refreshed(path)
    assert [file.name for file in tmp_path.iterdir()] == ["nebius.toml"]
    write_offers(path, good[:1], gpus)
    assert (tmp_path / "nebius.toml.bak").read_bytes() == before


def test_changes_tell_what_came_what_went_and_by_how_much(reader: Reader) -> None:
    before = reader.read("nebius", "a,L40S,1,1,1,2.0,eu,,,", "b,L40S,2,1,1,4.0,eu,,,", "c,L40S,4,1,1,8.0,eu,,,").offers
    after = reader.read("nebius", "a,L40S,1,1,1,2.2,eu,,,", "b,L40S,2,1,1,4.0,eu,,,", "d,L40S,4,1,1,8.0,eu,,,").offers
    found = [(change.kind, change.instance, share_of_change(change)) for change in changes(before, after)]
    assert found == [("changed", "a", pytest.approx(0.1)), ("added", "d", None), ("gone", "c", None)]
    assert list(changes(before, before)) == []


def test_the_date_is_todays_where_the_server_states_none_and_older_prices_are_not_taken(
    tmp_path: Path, gpus: GpuCatalogue, shipped: tuple[Offer, ...], catalogue: PriceCatalogue
) -> None:
    import os

    source = tmp_path / "copy" / "lambda" / "vms.csv"
    source.parent.mkdir(parents=True)
    source.write_text(f"{HEAD}\ngpu_1x_h100_pcie,H100,1,26,200,2.49,us-east-1,,,\n")
    old = dt.datetime(2026, 5, 1, tzinfo=dt.UTC).timestamp()
    destination = OfferFolder(shipped, shipped, tmp_path / "offers", gpus, fewer=True)

    def refreshed(today: dt.date) -> tuple[str, str | None]:
        base = base_url(str(tmp_path / "copy"), catalogue)
        (one,) = refresh(chosen_providers(catalogue, ["lambda"]), catalogue, base, destination, today=today)
        return one.state, one.as_of

    os.utime(source, (old, old))
    assert refreshed(dt.date(2026, 11, 21)) == ("older", "2026-05-01")
    assert not destination.folder.exists()
    # where the first address does not answer, the mirror does
    elsewhere = msgspec.structs.replace(catalogue, base=(tmp_path / "gone").as_uri(), mirror=(tmp_path / "copy").as_uri())
    (mirrored,) = refresh(
        chosen_providers(elsewhere, ["lambda"]), elsewhere, elsewhere.base, destination, today=dt.date(2026, 11, 21), dry_run=True
    )
    assert (mirrored.state, mirrored.url) == ("older", source.as_uri())
    new = dt.datetime(2026, 11, 20, tzinfo=dt.UTC).timestamp()
    os.utime(source, (new, new))
    assert refreshed(dt.date(2026, 11, 21)) == ("written", "2026-11-20")
    assert refreshed(dt.date(2026, 11, 19)) == ("written", "2026-11-19")  # no price is of a day to come
