"""Questions that say less than their sources: what is left out of them and what stays."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fit_ranges import asked_with_less
from published_sample import TRAINED, asked


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
