"""Records that every plan reads or sends evaluate their annotations: msgspec would compile each text at the first conversion (339)."""

from __future__ import annotations

import msgspec
import pytest

from planner.engine.answers.answer import Answer
from planner.engine.answers.plan import Plan, PlanRow
from planner.engine.job.engine import Engine
from planner.engine.records.engine import EngineNumbers
from planner.hardware.catalogue.gpu import Gpu
from planner.hardware.ceilings.records import CeilingRecord
from planner.hardware.prices.offers import Offer
from planner.hardware.prices.providers import Provider
from planner.workload.tasks import Request, Targets, Workload

RECORDS = (Answer, CeilingRecord, Engine, EngineNumbers, Gpu, Offer, Plan, PlanRow, Provider, Request, Targets, Workload)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_annotations_of_large_records_are_no_texts(record: type[msgspec.Struct]) -> None:
    texts = [name for name, kind in record.__annotations__.items() if isinstance(kind, str)]
    assert record.__annotations__
    assert not texts, "remove `from __future__ import annotations` from its module"
