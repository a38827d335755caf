"""NVML functions, field values and GPM metrics that are read, and the meaning of their answers in SI units and fractions.

Numbers of fields, metrics and bits are literals from nvml.h, because bindings of some versions lack or misdefine their names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from planner.observe.snapshot import CapabilityState
from planner.units import GIGA, MEGA, MIB

LASTING: frozenset[CapabilityState] = frozenset({"not supported", "no permission", "function missing"})
"""States that do not change while the device's configuration stays, so that another call is useless."""

MEMORY_V2 = 0x02000028
"""Version word of nvmlMemory_v2_t (size 40, version 2), which separates `reserved` from `used`."""
CLOCK_SM, CLOCK_MEMORY = 1, 2
TEMPERATURE_GPU = 0


class Query(NamedTuple):
    """One call and the snapshot fields that its answer fills."""

    counter: str
    """Name in the capability table."""
    function: str
    arguments: tuple[Any, ...]
    fields: tuple[str, ...]
    convert: Callable[[Any], tuple[Any, ...]]
    """Conversion of the answer to one value per field, None for a value without meaning."""
    older: tuple[str, tuple[Any, ...], Callable[[Any], tuple[Any, ...]]] | None = None
    """Function, arguments and conversion for drivers without `function`."""


def single(
    counter: str, function: str, field: str, convert: Callable[[Any], Any] | None = None, arguments: tuple[Any, ...] = ()
) -> Query:
    """A query of one field; without `convert` the answer is its value."""
    return Query(counter, function, arguments, (field,), lambda answer: (convert(answer) if convert else answer,))


class Field(NamedTuple):
    """One field value (nvmlDeviceGetFieldValues)."""

    id: int
    field: str
    scale: float
    """Factor from the raw value to SI."""


def _memory(memory: Any) -> tuple[Any, ...]:
    """Total, reserved, used and free bytes; the older call counts the driver's reserve as used."""
    if memory.total <= 0:
        return (None, None, None, None)
    reserved = getattr(memory, "reserved", None)
    return (float(memory.total), None if reserved is None else float(reserved), float(memory.used), float(memory.free))


EVENT_REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability voltage",
}
"""Bit of nvmlDeviceGetCurrentClocksEventReasons -> reason why the clock is not at its maximum."""


def event_reason_names(bits: int) -> tuple[str, ...]:
    """Names of the set bits, lowest first; a bit without a name shows as its number."""
    return tuple(
        EVENT_REASONS.get(1 << shift, f"reason {1 << shift:#x}") for shift in range(bits.bit_length()) if bits >> shift & 1
    )


MEMORY = Query(
    "memory",
    "nvmlDeviceGetMemoryInfo",
    (MEMORY_V2,),
    ("memory_total_bytes", "memory_reserved_bytes", "memory_used_bytes", "memory_free_bytes"),
    _memory,
    ("nvmlDeviceGetMemoryInfo", (), _memory),
)

FAST_QUERIES = (
    Query(
        "utilization",
        "nvmlDeviceGetUtilizationRates",
        (),
        ("kernel_resident_fraction", "memory_active_fraction"),
        lambda rates: (rates.gpu / 100, rates.memory / 100),
    ),
    MEMORY,
    single("energy", "nvmlDeviceGetTotalEnergyConsumption", "energy_j", lambda millijoules: millijoules / 1e3),
    single("SM clock", "nvmlDeviceGetClockInfo", "sm_clock_hz", lambda megahertz: megahertz * MEGA, (CLOCK_SM,)),
    single("memory clock", "nvmlDeviceGetClockInfo", "memory_clock_hz", lambda megahertz: megahertz * MEGA, (CLOCK_MEMORY,)),
    Query(
        "event reasons",
        "nvmlDeviceGetCurrentClocksEventReasons",
        (),
        ("event_reasons",),
        lambda bits: (event_reason_names(bits),),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", (), lambda bits: (event_reason_names(bits),)),
    ),
)

POWER_LIMIT = single("power limit", "nvmlDeviceGetEnforcedPowerLimit", "power_limit_w", lambda milliwatts: milliwatts / 1e3)
SLOW_QUERIES = (
    single("temperature", "nvmlDeviceGetTemperature", "temperature_c", float, (TEMPERATURE_GPU,)),
    POWER_LIMIT,
    single("max SM clock", "nvmlDeviceGetMaxClockInfo", "max_sm_clock_hz", lambda megahertz: megahertz * MEGA, (CLOCK_SM,)),
    single("PCIe generation", "nvmlDeviceGetCurrPcieLinkGeneration", "pcie_generation"),
    single("PCIe width", "nvmlDeviceGetCurrPcieLinkWidth", "pcie_width"),
    single("max PCIe generation", "nvmlDeviceGetMaxPcieLinkGeneration", "pcie_max_generation"),
    single("max PCIe width", "nvmlDeviceGetMaxPcieLinkWidth", "pcie_max_width"),
    single("persistence mode", "nvmlDeviceGetPersistenceMode", "persistence_mode", bool),
)

CORRECTED, UNCORRECTED, VOLATILE, AGGREGATE = 0, 1, 0, 1
"""nvmlMemoryErrorType_t and nvmlEccCounterType_t."""
SINGLE_BIT, DOUBLE_BIT = 0, 1
"""nvmlPageRetirementCause_t."""

_ECC, _PAGES = "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRetiredPages_v2"
HEALTH_QUERIES = (
    single("ECC corrected volatile", _ECC, "ecc_corrected_volatile", None, (CORRECTED, VOLATILE)),
    single("ECC uncorrected volatile", _ECC, "ecc_uncorrected_volatile", None, (UNCORRECTED, VOLATILE)),
    single("ECC corrected aggregate", _ECC, "ecc_corrected_aggregate", None, (CORRECTED, AGGREGATE)),
    single("ECC uncorrected aggregate", _ECC, "ecc_uncorrected_aggregate", None, (UNCORRECTED, AGGREGATE)),
    Query(
        "remapped rows",
        "nvmlDeviceGetRemappedRows",
        (),
        ("remapped_rows_correctable", "remapped_rows_uncorrectable", "row_remap_pending", "row_remap_failed"),
        lambda rows: (rows[0], rows[1], bool(rows[2]), bool(rows[3])),
    ),
    single("pages retired, single bit", _PAGES, "retired_pages_single_bit", len, (SINGLE_BIT,)),
    single("pages retired, double bit", _PAGES, "retired_pages_double_bit", len, (DOUBLE_BIT,)),
    single("page retirement", "nvmlDeviceGetRetiredPagesPendingStatus", "page_retirement_pending", bool),
)
"""Counters of failing memory, read with the slow ones."""

POWER_USAGE = single("power", "nvmlDeviceGetPowerUsage", "power_w", lambda milliwatts: milliwatts / 1e3)
"""Older power call: instantaneous up to compute capability 8.0 (GA100), an average over one second after it."""

FAST_FIELDS = (Field(186, "power_w", 1e-3), Field(185, "power_average_w", 1e-3))

SLOW_FIELDS = (
    Field(82, "memory_temperature_c", 1.0),
    Field(74, "power cap", 1 / GIGA),
    Field(269, "software thermal", 1 / GIGA),
    Field(270, "hardware thermal", 1 / GIGA),
    Field(271, "power brake", 1 / GIGA),
)
THROTTLE_COUNTERS = frozenset({"power cap", "software thermal", "hardware thermal", "power brake"})
"""Fields of SLOW_FIELDS that count throttled time (raw in nanoseconds) since the driver was loaded."""

GPM_MINIMUM_WINDOW_S = 0.11
"""Minimum window: two GPM samples closer than the hardware's refresh of 100 ms are refused; 10 % more allow for clock differences."""
GPM_LONGEST_WINDOW_S = 10.0
"""Maximum window: after a longer pause the old sample is dropped, because an average over it would not be current."""

GPM_METRICS = (
    Field(1, "graphics_active_fraction", 0.01),
    Field(2, "sm_active_fraction", 0.01),
    Field(3, "sm_occupancy_fraction", 0.01),
    Field(4, "integer_active_fraction", 0.01),
    Field(5, "tensor_active_fraction", 0.01),
    Field(10, "dram_bandwidth_fraction", 0.01),
    Field(11, "fp64_active_fraction", 0.01),
    Field(12, "fp32_active_fraction", 0.01),
    Field(13, "fp16_active_fraction", 0.01),
    Field(20, "pcie_tx_bytes_per_s", MIB),
    Field(21, "pcie_rx_bytes_per_s", MIB),
    Field(60, "nvlink_rx_bytes_per_s", MIB),
    Field(61, "nvlink_tx_bytes_per_s", MIB),
)
GPM_FIELDS = tuple(metric.field for metric in GPM_METRICS)

NO_GPM = "SM, tensor and bandwidth counters need Hopper or newer, or GeForce 50xx"
FIRST_GPM = "first sample: the counter needs two, 0.1 s apart"
NOT_WITH_MIG = "not reported while MIG is on"
