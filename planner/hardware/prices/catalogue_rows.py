"""Rows of a price catalogue: CSV with one row per instance and zone; some hosts are priced apart from their GPUs."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "GpuInfo", "Price", "SpotPrice", "Region")
"""Required columns; AvailabilityZone is read where there is one."""
MOST_ROWS = 200_000
"""Lines of one file; the largest of the catalogue has 4 MB."""
LIMITS = {"AcceleratorCount": (1e-3, 1e6), "Price": (1e-6, 1e9), "SpotPrice": (1e-6, 1e9)}
"""Smallest and largest value of a figure that is stated and not 0, as in an offer; other columns 0 and 1e9."""


class UnusablePrices(Exception):  # noqa: N818  # an expected outcome, said in words
    """A file of prices that cannot be used at all; the message is the reason."""


class Row(msgspec.Struct, frozen=True):
    """One line of the CSV. Prices are of the whole instance, in US dollars an hour; None: not stated."""

    instance: str
    accelerator: str
    gpus: float
    vcpus: float | None
    memory_gib: float | None
    info: str
    price: float | None
    spot: float | None
    region: str
    zone: str


def read_rows(text: str, unusable: list[str]) -> Iterator[Row]:
    """Every readable line; others are added to `unusable` with number and reason. Raises `UnusablePrices` for another table."""
    if max(text.count("\n"), text.count("\r")) > MOST_ROWS:
        raise UnusablePrices(f"has more than {MOST_ROWS:,} lines, the most that are read")
    reader = csv.DictReader(io.StringIO(text))
    try:
        lacking = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if lacking:
            raise UnusablePrices(f"is not a table of prices: it has no column {', '.join(lacking)}")
        for line in reader:
            try:
                yield _row(line)
            except ValueError as wrong:
                unusable.append(f"line {reader.line_num}: {wrong}")
    except csv.Error as wrong:
        raise UnusablePrices(f"is not a table of prices: line {reader.line_num}: {wrong}") from None


def _row(line: Mapping[str, Any]) -> Row:
    if None in line or any(line[name] is None for name in COLUMNS):
        raise ValueError("has more or fewer values than columns")

    def number(name: str) -> float | None:
        text = line[name].strip()
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{name} {text!r} is not a number") from None
        least, most = LIMITS.get(name, (0.0, 1e9))
        if value != 0 and not least <= value <= most:  # also not a number, or infinity
            raise ValueError(f"{name} {text!r} is not a number from {least:g} to {most:g}")
        return value

    return Row(
        instance=line["InstanceType"].strip(),
        accelerator=line["AcceleratorName"].strip(),
        gpus=number("AcceleratorCount") or 0.0,
        vcpus=number("vCPUs"),
        memory_gib=number("MemoryGiB"),
        info=line["GpuInfo"],
        price=number("Price") or None,
        spot=number("SpotPrice") or None,
        region=line["Region"].strip(),
        zone=(line.get("AvailabilityZone") or line["Region"]).strip(),
    )


def assembled(rows: Iterable[Row], machines: Mapping[str, tuple[str, int]]) -> Iterator[Row]:
    """Hosts joined with their GPUs, zone by zone, where the two are priced separately."""
    hosts: dict[str, list[Row]] = defaultdict(list)
    parts: dict[tuple[str, int, str], Row] = {}
    for row in rows:
        if row.instance and not row.accelerator:
            hosts[row.instance].append(row)
        elif row.accelerator and not row.instance:
            parts[row.accelerator, int(row.gpus), row.zone] = row
    for instance, (accelerator, count) in machines.items():
        for host in hosts[instance.partition("+")[0]]:
            part = parts.get((accelerator, count, host.zone))
            if part is None or part.price is None or host.price is None:
                continue
            yield Row(
                instance=instance,
                accelerator=accelerator,
                gpus=count,
                vcpus=host.vcpus,
                memory_gib=host.memory_gib,
                info="",
                price=round(host.price + part.price, 6),
                spot=round(host.spot + part.spot, 6) if host.spot and part.spot else None,
                region=host.region,
                zone=host.zone,
            )
