"""Ceilings of devices as far as they are known now: made of records and measurements once, and kept until more is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

if TYPE_CHECKING:
    from planner.engine.estimate.calibration_check import CalibrationCheck
    from planner.engine.performance.operators.chip import Chip, FindChip
    from planner.hardware.catalogue.gpus import Gpu
    from planner.hardware.ceilings.ceilings import Ceilings
    from planner.hardware.ceilings.records import CeilingRecords
    from planner.hardware.measurements.measurement import Measurement
    from planner.workload.architecture import Architecture

    ReadArchitecture = Callable[[str | dict[str, Any]], Architecture]

BasisChoice = Literal["measured", "spec"]
"""Use of measurements ("measured"), or of vendors' figures only ("spec")."""


class CeilingsCache:
    """Ceilings of devices and, at a dtype, the chips that the timing formulas read."""

    def __init__(
        self,
        *,
        records: CeilingRecords,
        related: Iterable[Gpu],
        measurements: Callable[[], Sequence[Measurement]],
        architecture: ReadArchitecture,
        own_results: Callable[[], Mapping[str, tuple[float, int]]] = dict,
    ) -> None:
        """`related`: parts whose measurements adjust others of their kind; `measurements`: returns all, called again after `forget`."""
        self._records = records
        self._related = related
        self._read = measurements
        self._architecture = architecture
        self._own_results = own_results
        self._measured: Sequence[Measurement] | None = None
        self._learned: Mapping[str, tuple[float, int]] | None = None
        self._ceilings: dict[tuple[str, BasisChoice], Ceilings] = {}
        self._chips: dict[tuple[str, str, str, BasisChoice], Chip | None] = {}

    def ceilings(self, gpu: Gpu, basis: BasisChoice = "measured") -> Ceilings:
        """Ceilings of `gpu`."""
        key = (gpu.name, basis)
        if key not in self._ceilings:
            self._ceilings[key] = self._of_slice(gpu, basis) or (
                self._calibrated(gpu) if basis == "measured" else self.ceilings_by(gpu, ())
            )
        return self._ceilings[key]

    def _of_slice(self, gpu: Gpu, basis: BasisChoice) -> Ceilings | None:
        """Ceilings of a slice of a GPU; None for a whole GPU."""
        from planner.hardware.catalogue.mig import split_name
        from planner.hardware.ceilings.ceilings import ceilings_of_slice

        if (name := split_name(gpu.name)) is None:
            return None
        whole = next((one for one in self._related if one.name == name[0]), None)
        return ceilings_of_slice(gpu, whole, self.ceilings(whole, basis)) if whole is not None else None

    def check(self, gpu: Gpu) -> CalibrationCheck:
        """Error of measured and published ceilings of `gpu` on points they were not fitted to."""
        from planner.engine.estimate.calibration_check import check_calibration

        measured = self.ceilings_by(gpu, self._all_measured())
        return check_calibration(gpu, self.ceilings(gpu, "spec"), measured, self._all_measured(), self._architecture)

    def _calibrated(self, gpu: Gpu) -> Ceilings:
        """The measured ceilings, with published rates where measured ones predict whole steps worse."""
        found = self.ceilings_by(gpu, self._all_measured())
        if not any(one.device == gpu.name for one in self._all_measured()) or self.check(gpu).accepted:
            return found
        from planner.hardware.ceilings.calibration import with_rates_of

        return with_rates_of(found, self.ceilings(gpu, "spec"))

    def ceilings_by(self, gpu: Gpu, measurements: Sequence[Measurement]) -> Ceilings:
        """Ceilings of `gpu` by these measurements alone; not kept."""
        from planner.hardware.ceilings.calibration import ceilings_of

        return ceilings_of(gpu, self._records, measurements, related=self._related)

    def chips(self, basis: BasisChoice) -> FindChip:
        """The look-up of chips on one basis."""

        def find(gpu: Gpu, dtype: str, stored: str) -> Chip | None:
            key = (gpu.name, dtype, stored, basis)
            if key not in self._chips:
                self._chips[key] = self._chip(gpu, dtype, stored, basis)
            return self._chips[key]

        return find

    def forget(self) -> None:
        """Discard what rests on measurements, after they have changed."""
        self._measured = self._learned = None
        self._ceilings.clear()
        self._chips.clear()

    def _chip(self, gpu: Gpu, dtype: str, stored: str, basis: BasisChoice) -> Chip | None:
        from planner.engine.evaluate.measured_steps import with_measured_steps
        from planner.engine.performance.operators.chip import chip_of

        ceilings = self.ceilings(gpu, basis)
        found = chip_of(gpu, ceilings, dtype, stored)
        points = ceilings.train_points
        if found is None:
            return None
        if basis == "measured" and (own := self._all_learned()):
            factors = {kind: factor for kind, (factor, _) in own.items()}
            found = replace(
                found,
                own_ranges=factors,
                own_results=sum(results for _, results in own.values()),
                own_training_memory=factors.get("training memory", 1.0),
                own_inference_memory=factors.get("inference memory", 1.0),
            )
        return with_measured_steps(found, points, self._architecture) if points else found

    def _all_measured(self) -> Sequence[Measurement]:
        if self._measured is None:
            self._measured = tuple(self._read())
        return self._measured

    def _all_learned(self) -> Mapping[str, tuple[float, int]]:
        if self._learned is None:
            self._learned = self._own_results()
        return self._learned
