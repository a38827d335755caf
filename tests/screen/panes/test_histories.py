"""Histories on a clock, and the benchmark's points on them."""

from __future__ import annotations

from planner.observe.snapshot import HostSnapshot
from widgets.drawing.symbols import ASCII, UNICODE
from widgets.panes.machine.gpu import Drawing, host_lines
from widgets.panes.machine.history import Cells, History, Mark, Marks, legend, mark_line, sparkline, tall_sparkline


def history_of(*readings: tuple[float, float, float | None]) -> History:
    """A history of readings (when, seconds from one to the next, value)."""
    history = History()
    for at_s, interval_s, value in readings:
        history.note(at_s, interval_s, {"busy": value})
    return history


def test_a_cell_is_a_second_however_often_readings_come() -> None:
    history = history_of((10.0, 0.5, 0.0), (10.5, 0.5, 1.0), (11.0, 0.5, 0.25), (11.5, 0.5, None))
    assert history.values("busy", Cells(11.5, 3)) == [None, 0.5, 0.25]
    assert history.values("busy", Cells(11.5, 4, 0.5)) == [0.0, 1.0, 0.25, None]


def test_a_reading_of_the_slow_tier_stands_for_the_seconds_before_it_and_a_pause_for_nothing() -> None:
    history = history_of((10.0, 1.0, 0.0), (15.0, 5.0, 1.0), (40.0, 1.0, 0.5))
    assert history.values("busy", Cells(15.0, 6)) == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert history.values("busy", Cells(40.0, 3)) == [None, 0.5, 0.5]
    assert history.values("absent", Cells(40.0, 3)) == [None, None, None]


def test_a_recording_that_begins_again_goes_on() -> None:
    history = history_of((1.0, 1.0, 0.0), (2.0, 1.0, 0.5), (1.0, 1.0, 1.0), (2.0, 1.0, 0.5))
    assert history.values("busy", Cells(history.until_s, 4)) == [0.0, 0.5, 1.0, 0.5]


def marks_of(*points: tuple[str, float, float | None]) -> Marks:
    marks = Marks()
    for name, began_s, ended_s in points:
        marks.begin(name, f"point {name}", "cpu", began_s)
        if ended_s is not None:
            marks.end(ended_s)
    return marks


def drawn(marks: Marks, until_s: float, width: int, ends: str = UNICODE.mark) -> str:
    cells = Cells(until_s, width)
    return mark_line(marks.within(cells, "cpu"), cells, ends)


def test_marks_lie_on_the_cells_of_their_seconds() -> None:
    marks = marks_of(("x", 12.2, 18.7), ("y", 19.0, 19.4), ("z", 20.1, None))
    assert marks.open
    assert drawn(marks, 24.0, 15) == "  ├──a──┤b├─c──"
    assert drawn(marks, 24.0, 15, ASCII.mark) == "  [--a--]b[-c--"
    assert drawn(marks, 24.0, 8) == "a─b├─c──"
    assert drawn(marks, 60.0, 15) == "───────c───────"  # it still runs
    assert marks.within(Cells(24.0, 15), "cuda:0") == []


def test_a_point_keeps_its_letter_and_one_that_was_left_open_ends_where_the_next_begins() -> None:
    marks = marks_of(("x", 1.0, None), ("y", 3.0, 4.0), ("x", 5.0, 6.0))
    assert [(mark.letter, mark.began_s, mark.ended_s) for mark in marks] == [("a", 1.0, 3.0), ("b", 3.0, 4.0), ("a", 5.0, 6.0)]
    assert not marks.open


def test_the_legend_drops_the_oldest_names_first_and_says_what_runs() -> None:
    marks = [Mark(letter, f"GEMM {letter * 4}", "cpu", 0.0, 1.0) for letter in "abc"] + [Mark("d", "copy", "cpu", 2.0)]
    assert legend(marks, 80, 2, "…") == ["a GEMM aaaa   b GEMM bbbb   c GEMM cccc   d copy now"]
    assert legend(marks, 9, 2, "…") == ["…", "d co… now"], "that it runs is said, whatever its name"
    assert legend(marks, 27, 1, "…") == ["…   d copy now"]
    assert legend(marks, 27, 2, "…") == ["a GEMM aaaa   b GEMM bbbb", "c GEMM cccc   d copy now"]
    assert legend(marks, 20, 2, "…") == ["…   c GEMM cccc", "d copy now"]


def test_the_processor_has_its_points_too() -> None:
    history = history_of(*((100.0 + second, 1.0, 0.5) for second in range(10)))
    host = HostSnapshot(cpu_name="CPU", cpu_cores=4, cpu_busy_fraction=0.5)
    lines = [
        str(line).rstrip()
        for line in host_lines(host, history, Drawing(ASCII, 60, 1.0, marks_of(("x", 101.0, 106.5)), recorded=False))
    ]
    busy, points = (next(line for line in lines if line.startswith(label)) for label in ("busy", "benchmark"))
    assert points.endswith("[--a-]")
    assert points.index("[") == busy.rindex("-") - 8
    assert sparkline([0.5], 1, ASCII.sparks) == "-"


def test_a_history_of_several_rows_grows_from_the_lowest() -> None:
    assert tall_sparkline([0.0, 0.25, 0.5, 0.75, 1.0, None], UNICODE.sparks, 2) == ["   ▅█ ", "▁▅███ "]
    assert tall_sparkline([0.5, None], UNICODE.sparks, 1) == ["▅ "]
