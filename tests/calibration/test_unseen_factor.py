"""The factor on ranges of a class that nothing is published of, in worlds whose classes are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ranges.residual import Residual
from ranges.residuals import left_out
from ranges.unseen import UnseenClasses, sources_left_out

CLASSES = tuple("abcdefghijkl")


def world(rng: np.random.Generator, bias: float) -> list[Residual]:
    """Three sources of each class, with Laplace's residuals of scale 0.1 and a bias of the class."""
    of_class = {name: bias * rng.choice([-1.0, 1.0]) for name in CLASSES}
    return [
        Residual("prefill", f"source {name}{number}", of_class[name] + float(rng.laplace(0, 0.1)), classes=(name, "dense models"))
        for name in CLASSES
        for number in range(3)
        for _ in range(20)
    ]


def test_classes_that_are_alike_are_hardly_wider() -> None:
    assert 1.0 <= UnseenClasses(world(np.random.default_rng(1), 0.0)).factor() < 1.35


def test_a_class_that_the_others_say_nothing_of_lies_inside_a_range_that_others_teach() -> None:
    residuals = world(np.random.default_rng(2), 0.2)
    found = UnseenClasses(residuals)
    (judged, inside), (shapes_judged, _) = found.inside()
    assert judged.all()
    assert inside.mean() >= 0.88
    assert not shapes_judged.any(), "without the only shape no source is left"


def test_a_class_counts_as_one_however_many_values_it_has() -> None:
    residuals = world(np.random.default_rng(3), 0.1)
    many = [*residuals, *(one for one in residuals if one.classes[0] == "a")]
    assert UnseenClasses(many).factor() == pytest.approx(UnseenClasses(residuals).factor(), rel=0.05)


def test_a_class_left_out_does_not_decide_its_own_factor() -> None:
    rng = np.random.default_rng(4)
    far = [
        Residual("prefill", f"far {number}", float(off), classes=("far", "dense models"))
        for number in range(3)
        for off in 3 * rng.choice([-1, 1], 20)
    ]
    found = UnseenClasses([*world(rng, 0.0), *far])
    assert found.factor("far") < 1.35
    assert found.factor() > found.factor("far")


def test_a_class_that_one_source_alone_tells_of_is_judged_by_the_wider_range_it_would_have_without_it() -> None:
    rng = np.random.default_rng(5)
    residuals = [
        Residual("prefill", source, float(rng.laplace(0, 0.3 if name in "bcd" else 0.1)), classes=(own, "", ""))
        for name in CLASSES
        for source in (f"source {name}0", f"source {name}1", f"source {name}2")
        for own in ("alone" if source == "source a0" else name,)
        for _ in range(20)
    ]
    plain, judged = left_out(residuals).half_widths(), sources_left_out(residuals).half_widths()
    alone = np.array([one.source == "source a0" for one in residuals])
    factor = UnseenClasses(residuals).factor("alone")
    assert factor > 1.1
    assert np.median(judged[alone] / plain[alone]) == pytest.approx(factor, rel=0.05)
    assert np.median(judged[~alone] / plain[~alone]) == pytest.approx(1.0, rel=0.05)


def test_a_class_that_is_left_out_takes_its_sources_with_it() -> None:
    """Sources with a bias of their own, each of two classes: what a source shows of the other class would tell of the one left out."""
    rng = np.random.default_rng(6)
    residuals = [
        Residual("prefill", f"source {number}", bias + float(rng.laplace(0, 0.02)), {f"fact {number}": 1.0}, classes=(name, "", ""))
        for number in range(8)
        for bias in (0.3,)
        for name in "ab"
        for _ in range(20)
    ]
    own = np.array([one.source == "source 1" and one.classes[0] == "a" for one in residuals])
    without_class = left_out(residuals, [one.classes[0] for one in residuals])
    without_source = left_out(residuals)
    assert without_class.scales[own] == pytest.approx(without_source.scales[own], rel=0.1)


def test_an_engine_that_is_not_named_is_no_class() -> None:
    residuals = [replace(one, classes=("", "", "")) for one in world(np.random.default_rng(7), 0.2)]
    assert UnseenClasses(residuals).factor() == 1.0
    assert sources_left_out(residuals).half_widths() == pytest.approx(left_out(residuals).half_widths())
