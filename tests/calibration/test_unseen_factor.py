"""The factor on ranges of a class that nothing is published of, in worlds whose classes are known."""

from __future__ import annotations

import numpy as np
import pytest
from ranges.residual import Residual
from ranges.unseen import UnseenClasses

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
