"""Fixed points of many rows: worked examples, and functions whose plain iteration is slow or has no end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.engine.columns import Floats, Rows
from planner.engine.columns.fixed_point import fixed_point

Function = Callable[[Floats], Floats]


def rows_of(constant: Floats, slope: Floats, most: Floats) -> Callable[[Rows], Function]:
    """The function min(constant + slope·x, most) of each row, with the solution constant / (1 - slope) where that is less than `most`."""

    def of_rows(rows: Rows) -> Function:
        return lambda x: np.minimum(constant[rows] + slope[rows] * x, most[rows])

    return of_rows


def test_a_line_is_solved_at_once() -> None:
    """x = 3 + x/2 at 6, and x = 0.1 + x/10 at 1/9, from 1 on."""
    calls = 0

    def of_rows(rows: Rows) -> Function:
        def following(x: Floats) -> Floats:
            nonlocal calls
            calls += 1
            return np.array([3.0, 0.1])[rows] + np.array([0.5, 0.1])[rows] * x

        return following

    assert fixed_point(of_rows, np.ones(2)) == pytest.approx([6.0, 1 / 9])
    assert calls <= 4


@given(
    st.lists(st.tuples(st.floats(0.001, 100.0), st.floats(0.0, 1.5), st.floats(1.0, 1e4)), min_size=1, max_size=6),
)
def test_rows_have_the_solution_of_each_alone(rows: list[tuple[float, float, float]]) -> None:
    constant, slope, most = np.array(rows).T
    found = np.minimum(fixed_point(rows_of(constant, slope, most), np.ones(len(rows))), most)
    with np.errstate(divide="ignore"):
        solution = np.where(slope < 1, np.minimum(constant / np.maximum(1 - slope, 0.0), most), most)
    near = np.abs(slope - 1) < 0.05  # grows by too little a step to reach its limit
    np.testing.assert_allclose(found[~near], solution[~near], rtol=1e-6)
    for row in range(len(rows)):
        one = np.array([row])
        alone = fixed_point(rows_of(constant[one], slope[one], most[one]), np.ones(1))
        assert np.minimum(alone, most[one]) == found[row]


def test_the_lower_of_two_solutions_is_found() -> None:
    """x = 1 + x²/8 has the solutions 4 - √8 and 4 + √8; a load that settles at the first never sees the second."""
    found = fixed_point(lambda _rows: lambda x: 1 + x**2 / 8, np.ones(1))
    assert found == pytest.approx([4 - np.sqrt(8)])
