"""The decoders that `transformers` builds from its defaults, counted: which are answered by a family, and which are not and why."""

from __future__ import annotations

import pytest
from decoder_cases import GOLDEN, WITHOUT_FAMILY

from planner.workload.huggingface.config import known_family
from planner.workload.huggingface.keys import FAMILIES, family

BUILT = {name: found for name, found in GOLDEN.values.items() if "parameters" in found}


def answered(name: str) -> bool:
    found = BUILT[name]
    text = {"text_config": {"model_type": found["text"]}} if found["text"] else {}
    return known_family({"model_type": found["model_type"], "is_encoder_decoder": False, **text})


def test_every_decoder_is_answered_or_listed_with_its_reason() -> None:
    assert {name for name in BUILT if not answered(name)} == set(WITHOUT_FAMILY)


def test_their_number_does_not_drop() -> None:
    assert len(BUILT) >= 179
    assert sum(map(answered, BUILT)) >= 161


def test_they_are_listed_by_the_oracle_as_it_is() -> None:
    assert GOLDEN.made_from == GOLDEN.digests(), "make oracles"


def test_a_model_type_is_read_by_one_family() -> None:
    before = FAMILIES["llama"]
    with pytest.raises(ValueError, match="llama is read by two families"):
        family("llama")(lambda _: {})
    assert FAMILIES["llama"] is before
