"""The story of a study: what its curves say in sentences."""

from __future__ import annotations

import msgspec
from study_sample import sample_study

from planner.engine.answers.study import size_text, story


def test_a_line_that_ends_says_why() -> None:
    answer = sample_study()
    first, *others = answer.curves
    last = msgspec.structs.replace(first.points[-1], flop_per_s=None, reason="does not fit: 31.1 GiB needed")
    cut = msgspec.structs.replace(answer, curves=[msgspec.structs.replace(first, points=[*first.points[:-1], last]), *others])
    told = f"The line of {first.gpu} ends below {size_text(last.parameters, 'width')} parameters: does not fit: 31.1 GiB needed."
    assert told in story(cut)
    assert told not in story(answer)
