"""Questions that say less than their sources, and groups of which too little is left to be judged by."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from fit_ranges import asked_with_less
from published_sample import TRAINED, asked
from ranges.out_of_sample import kinds_table
from ranges.residual import Residual
from ranges.residuals import left_out


@pytest.mark.parametrize(
    ("engine", "by_library", "release"),
    [("fms-acceleration@4.45", "transformers@4.45", "fms-acceleration"), ("litgpt", "torch", ""), ("torch@2.4", "", "torch")],
)
def test_a_program_is_asked_by_its_library_and_without_any_engine(
    tmp_path: Path, engine: str, by_library: str, release: str
) -> None:
    """The sharding stays with the library and goes with the engine, which decides on ZeRO 1."""
    source = asked(tmp_path, TRAINED)
    stated = msgspec.structs.replace(source, request=msgspec.structs.replace(source.request, engine=engine, sharding="zero1"))
    found = {
        name: [(one.request.engine, one.request.sharding) for one in experiments]
        for name, experiments in asked_with_less([stated]).items()
    }
    assert found == {
        "": [(engine, "zero1")],
        "release": [(release, "zero1")] if release else [],
        "program": [(by_library, "zero1")] if by_library else [],
        "engine": [(None, "none")],
    }


def test_a_group_without_which_too_few_sources_are_left_is_not_judged() -> None:
    """Four dense sources and one of mixtures: without the dense ones a single source would say how wide their ranges are."""
    rng = np.random.default_rng(5)

    def source(name: str, shape: str, scale: float) -> list[Residual]:
        return [Residual("training memory", name, float(off), classes=(name, shape)) for off in rng.normal(0, scale, 20)]

    many = [one for number in range(4) for one in source(f"source {number}", "dense", 0.1)]
    one = source("source 5", "mixture", 0.01)
    (row,) = [line.split("|") for line in kinds_table([left_out([*many, *one])]).splitlines() if "training memory" in line]
    generation_out, class_out = row[8].strip(), row[9].strip()
    assert generation_out.endswith("%")
    assert class_out == "100%", "that of the mixtures alone, whose ranges four dense sources give"
    assert "—" in kinds_table([left_out(one)])
