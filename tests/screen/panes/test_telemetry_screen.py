"""The pane of this machine: figures with their histories, failing memory, and who uses each GPU."""

from __future__ import annotations

import os
import re
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from nvml_stub import A100, COMPILER, H100, ControlFile, build, environment
from terminal_screen import Screen
from textual.widgets import Static
from tui_sample import first_note, sample_options, settle

from planner.observe.snapshot import DeviceSnapshot, HostSnapshot, MigSnapshot, ProcessSnapshot, Snapshot
from widgets.app import PlannerApp
from widgets.drawing.symbols import ASCII, UNICODE
from widgets.panes.machine.axis import ages, time_axis
from widgets.panes.machine.gpu import Drawing, block, roomy_block, warnings_of_many
from widgets.panes.machine.history import COARSE_S, Cells, History, Marks
from widgets.panes.machine.levels import history_values
from widgets.panes.machine.many import MOST_ROWS, many_lines, short_lines, strip, summary_line
from widgets.panes.machine.pane import MachineView
from widgets.panes.machine.processes import ORDERS, process_lines

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler to build the stand-in with")


H100_SNAPSHOT = DeviceSnapshot(
    index=0, uuid="GPU-1", name="NVIDIA H100 80GB HBM3", cuda_ordinal=0, state="ok", sm_active_fraction=0.9, tensor_active_fraction=0.6,
    dram_bandwidth_fraction=0.4, sm_occupancy_fraction=0.25, memory_used_bytes=40e9, memory_total_bytes=80e9, power_w=350.0,
    power_limit_w=700.0, sm_clock_hz=1755e6, max_sm_clock_hz=1980e6, memory_clock_hz=2619e6, temperature_c=61.0, memory_temperature_c=84.0,
    event_reasons=("power cap",), throttled_fraction={"power cap": 0.12, "power brake": 0.0}, energy_j=3.6e9, pcie_generation=5, pcie_width=16,
    ecc_uncorrected_aggregate=0, ecc_corrected_aggregate=12, ecc_uncorrected_volatile=0, ecc_corrected_volatile=3,
    remapped_rows_correctable=2, remapped_rows_uncorrectable=0,
)  # fmt: skip


def lines_of(device: DeviceSnapshot, width: int, marks: Marks | None = None, *, roomy: bool = True) -> list[str]:
    history = History()
    for second in range(10):
        history.note(100.0 + second, 1.0, history_values(device))
    drawing = Drawing(UNICODE, width, 1.0, marks or Marks(), recorded=False)
    lines = roomy_block(device, history, drawing) if roomy else block(device, history, drawing, several=False)
    return [str(line).rstrip() for line in lines]


@pytest.mark.parametrize("width", [60, 76, 116, 196])
def test_every_figure_has_its_history_and_no_line_is_too_long(width: int) -> None:
    lines = lines_of(H100_SNAPSHOT, width)
    assert max(map(len, lines)) <= width
    by_label = {line[:16].strip(): line[16:].strip() for line in lines[1:]}
    assert lines[0].startswith("GPU 0 · NVIDIA H100 80GB HBM3 · cuda:0")
    assert lines[0].endswith("mean    max") is (width >= 116)
    gauge = ["■■■■■■■■■·"] if width >= 76 else []
    extremes = ["90", "%", "90", "%"] if width >= 116 else []
    assert by_label["SM active"].split() == ["90", "%", *gauge, *extremes, "▇" * 10]
    assert by_label["tensor"].split()[-1] == "▅" * 10
    assert by_label["memory"].split()[-1] == "▅" * 10  # half
    assert by_label["power"].split()[:2] == ["350/700", "W"]
    assert by_label["SM clock"].split()[:2] == ["1,755/1,980", "MHz"]
    assert by_label["temperature"].split()[-1] == "▅" * 10
    assert by_label["held back by"].split() == ["power", "cap", "12", "%", "▼" * 10]
    assert by_label["memory chips"] == "2,619 MHz, 84 °C"
    assert by_label["links, energy"].startswith("PCIe 5.0 ×16, energy 1,000.0 kWh since the")
    assert by_label["memory errors"].startswith("0 not corrected, 12 corrected ever")


def test_a_day_is_kept_in_averages_and_the_axis_says_how_long_ago() -> None:
    history = History()
    for second in range(0, 7200, 5):
        history.note(float(second), 5.0, {"busy": 1.0 if second < 3600 else 0.5})
    assert history.values("busy", Cells(history.until_s, 4, 1800.0)) == [1.0, 1.0, 0.5, 0.5]
    assert history.values("busy", Cells(history.until_s, 3, COARSE_S))[-1] == 0.5
    assert len(history._coarse) == 7200 // COARSE_S - 1
    history.note(7200.0, 5.0, {"busy": 0.9})
    for second in range(7205, 10800, 5):
        history.note(float(second), 5.0, {"busy": 0.5})
    cells = Cells(history.until_s, 2, 1800.0)
    assert history.most("busy", cells) == 0.9, "a peak shorter than what is averaged stays"
    assert history.values("busy", cells)[0] == pytest.approx(0.5, abs=0.01)
    assert history.most("busy", Cells(history.until_s, 10, 30.0)) == 0.5
    assert history.most("nothing", cells) is None
    for step_s, oldest in ((1.0, "-50 s"), (30.0, "-25 min"), (600.0, "-8 h")):
        axis = str(time_axis(Drawing(UNICODE, 106, step_s, Marks(), recorded=False)))
        assert axis.endswith("now")
        assert oldest in axis
        assert len(axis) <= 106
    for step_s, unit in ((1.0, "s"), (5.0, "min"), (30.0, "min"), (600.0, "h")):
        axis = ages(Drawing(UNICODE, 196, step_s, Marks(), recorded=False), 130)
        assert set(axis.split()[1:-1:2]) == {unit}, "ages that are to be compared have one unit"


def test_the_mean_of_a_history_is_not_above_its_highest() -> None:
    history = History()
    for second in range(13):
        history.note(float(second), 1.0, history_values(msgspec.structs.replace(H100_SNAPSHOT, sm_active_fraction=0.925)))
    lines = roomy_block(H100_SNAPSHOT, history, Drawing(UNICODE, 150, 1.0, Marks(), recorded=False))
    told = next(str(line) for line in lines if str(line).startswith("SM active"))
    mean, most = re.findall(r"(\d+) %", told)[1:3]
    assert int(mean) <= int(most)


def test_what_is_near_its_limit_is_drawn_as_a_warning() -> None:
    hot = msgspec.structs.replace(H100_SNAPSHOT, memory_used_bytes=79.9e9, power_w=699.0, temperature_c=90.0)
    history = History()
    history.note(1.0, 1.0, history_values(hot))
    lines = roomy_block(hot, history, Drawing(UNICODE, 100, 1.0, Marks(), recorded=False))
    styles = {str(line)[:16].strip(): {str(span.style) for span in line.spans} for line in lines}
    assert "$text-error" in styles["memory"]
    assert "$text-warning" in styles["power"]
    assert "$text-error" in styles["temperature"]
    assert not {"$text-error", "$text-warning"} & styles["SM active"]


def test_histories_of_one_line_do_not_touch_without_colours() -> None:
    full = msgspec.structs.replace(H100_SNAPSHOT, sm_active_fraction=1.0, power_w=700.0)
    assert not any("█" in line for line in lines_of(full, 116))
    drawing = Drawing(UNICODE, 116, 1.0, Marks(), recorded=False)
    assert not any("█" in str(line) for line in short_lines(full, History(), drawing))


@pytest.mark.parametrize(("height", "rows"), [(5, 1), (10, 1), (11, 2), (19, 4), (23, 5), (60, MOST_ROWS)])
@pytest.mark.parametrize("width", [40, 76, 116, 196])
def test_many_gpus_fill_the_height_below_titles_that_stand_above_their_figures(width: int, height: int, rows: int) -> None:
    devices = [msgspec.structs.replace(H100_SNAPSHOT, index=number, temperature_c=50.0 + number) for number in range(4)]
    histories = {device.place: History() for device in devices}
    for device in devices:
        for second in range(200):
            histories[device.place].note(100.0 + second, 1.0, history_values(device))
    drawing = Drawing(UNICODE, width, 1.0, Marks(), recorded=False)
    head, *lines = map(str, many_lines(devices, histories, drawing, height))
    assert head.startswith("mean SM active 90 %") is (height > 6), "all of them together, above the titles"
    head = lines.pop(0) if height > 6 else head
    axis = lines.pop() if len(lines) > 4 * rows else ""
    assert len(lines) == 4 * rows
    assert not any(line.strip() for line in lines[::rows]) or rows == 1, "histories of neighbours stand apart"
    assert len([head, *lines, *([axis] if axis else [])]) <= max(height, 5)
    assert max(map(len, [head, *lines, axis])) <= width
    assert bool(axis) is (height > 5)
    assert "now" in axis or not axis
    last = lines[-1].rstrip()
    assert last.endswith("power cap" if width > 76 else "53 °C") or width == 40
    assert len(head.rstrip()) == len(last) or width == 40
    assert all(set(line[10 : width - 90].strip()) == {"█"} for line in lines[rows - 1 :: rows] if width > 76 and rows > 2)


def strip_of(lines: list[str], label: str) -> list[str]:
    """The lines below those that begin with `label`."""
    return [below for line, below in pairwise(lines) if line.startswith(label)]


def test_all_gpus_together_are_summed_with_their_units() -> None:
    idle = msgspec.structs.replace(
        H100_SNAPSHOT, sm_active_fraction=0.02, event_reasons=("idle",), power_w=None, power_average_w=None
    )
    drawing = Drawing(UNICODE, 116, 1.0, Marks(), recorded=False)
    assert str(summary_line((H100_SNAPSHOT, idle, idle), drawing)) == (
        "mean SM active 31 % · memory 111.8 of 223.5 GiB · power 0.3 of 0.7 kW · 2 below 10 % · 1 held back"
    )


@pytest.mark.parametrize("width", [40, 76, 200])
def test_a_strip_holds_every_gpu(width: int) -> None:
    devices = [msgspec.structs.replace(H100_SNAPSHOT, index=number, temperature_c=50.0 + number) for number in range(24)]
    drawing = Drawing(ASCII, width, 1.0, Marks(), recorded=False)
    lines = list(map(str, strip(devices, drawing, 20)))
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("mean SM active 90 %")
    assert any(line.split() == ["GPU", *map(str, range(8))] for line in lines) is (width == 76), "whole computers a line"
    assert any("###" in line for line in strip_of(lines, "GPU")) is (width == 200), "bars where there is room for them"
    degrees = " ".join(line[13:] for line in lines if line.startswith("°C"))
    assert degrees.split() == [str(50 + number) for number in range(24)]


def test_slices_of_a_divided_gpu_have_a_line_each() -> None:
    part = MigSnapshot(
        uuid=None, profile="3g.40gb", memory_used_bytes=2.0**33, memory_total_bytes=40 * 2.0**30, sm_active_fraction=0.5
    )
    for roomy in (True, False):
        lines = lines_of(msgspec.structs.replace(H100_SNAPSHOT, mig=(part,)), 76, roomy=roomy)
        assert any(line.split() == ["MIG", "3g.40gb", "8.0/40.0", "GiB", "SM", "50", "%"] for line in lines)


def test_slices_of_one_profile_have_numbers_and_stand_before_figures_that_are_not_known() -> None:
    slices = tuple(
        MigSnapshot(uuid=None, profile="1g.10gb", gpu_instance=number, memory_used_bytes=2.0**33, memory_total_bytes=2.0**34)
        for number in (7, 13)
    )
    divided = msgspec.structs.replace(H100_SNAPSHOT, mig=slices, sm_active_fraction=None)
    for roomy in (True, False):
        text = "\n".join(lines_of(divided, 76, roomy=roomy))
        assert text.index("MIG 7 1g.10gb ") < text.index("MIG 13 1g.10gb ") < text.index("power")
        assert "kernel resident" not in text


def test_a_slice_has_its_figures_below_those_of_the_others_and_a_history_where_there_is_room() -> None:
    slices = tuple(
        MigSnapshot(uuid=None, profile=profile, gpu_instance=number, memory_used_bytes=used, memory_total_bytes=size * 2.0**30,
            sm_active_fraction=busy, dram_bandwidth_fraction=busy)
        for number, profile, used, size, busy in ((1, "3g.40gb", 2.0**33, 40, 1.0), (7, "1g.10gb", 95e6, 10, 0.5))
    )  # fmt: skip
    divided = msgspec.structs.replace(H100_SNAPSHOT, mig=slices, sm_active_fraction=None)
    first, second = (line for line in lines_of(divided, 76) if line.startswith("MIG"))
    assert (first.index("SM"), first.index("DRAM")) == (second.index("SM"), second.index("DRAM"))
    assert " 0.09/10.0 GiB" in second  # of one unit, however little it is
    lines = lines_of(divided, 116)
    first, second = (line for line in lines if line.startswith("MIG"))
    assert (first.endswith("█" * 10), second.endswith("▅" * 10)) == (True, True)
    assert second.split()[:5] == ["MIG", "7", "1g.10gb", "SM", "50"]
    assert lines[lines.index(second) + 1].split() == ["0.09/10.0", "GiB", "DRAM", "traffic", "50", "%"]


def test_the_line_of_a_divided_gpu_begins_with_what_is_known_of_it() -> None:
    slices = tuple(
        MigSnapshot(uuid=None, profile=profile, memory_used_bytes=2.0**33, memory_total_bytes=2.0**34)
        for profile in ("3g.40gb", "1g.10gb", "1g.10gb")
    )
    divided = msgspec.structs.replace(H100_SNAPSHOT, mig=slices, sm_active_fraction=None)
    view = MachineView()
    for device, begins in (
        (divided, "MIG 1 × 3g.40gb, 2 × 1g.10gb   350/700 W   37.3/74.5 GiB"),
        (msgspec.structs.replace(divided, mig=()), "NVIDIA H100 80GB HBM3   350/700 W"),
        (H100_SNAPSHOT, "SM active 90 %   tensor 60 %   350/700 W"),
    ):
        view.snapshot = Snapshot(
            taken_at="", taken_at_s=1.0, collect_s=0.0, interval_s=1.0, nvml_state="ready", nvml_detail="", host=HostSnapshot(cpu_name="", cpu_cores=1), devices=(device,)
        )  # fmt: skip
        assert str(view.summary(80)).strip().startswith(begins)


def test_the_points_of_a_gpu_stand_below_its_own_histories() -> None:
    marks = Marks()
    marks.begin("gemm", "GEMM bf16 8192³", "cuda:0", 101.0)
    marks.end(106.5)
    marks.begin("copy", "copy 8 GiB", "cuda:1", 106.6)
    for roomy in (True, False):
        lines = lines_of(H100_SNAPSHOT, 116, marks, roomy=roomy)
        histories = next(line for line in lines if line.startswith("SM active"))
        below = next(line for line in lines if line.startswith("benchmark"))
        assert below.endswith("├──a─┤")
        newest = histories.index("▇" * 10) + 9
        assert below.index("├") == newest - 8  # began in the second cell of ten, eight before the newest
        assert any(line.strip() == "a GEMM bf16 8192³" for line in lines)
        assert not any("copy 8 GiB" in line for line in lines)


def test_what_is_wrong_with_the_memory_is_said_in_every_form() -> None:
    failing = DeviceSnapshot(
        index=3, name="H", state="ok", sm_active_fraction=0.1, row_remap_pending=True, ecc_uncorrected_aggregate=2, ecc_corrected_aggregate=5,
        health_warnings=("uncorrectable memory errors", "row remap pending"),
    )  # fmt: skip
    for roomy in (True, False):
        text = " ".join(" ".join(lines_of(failing, 76, roomy=roomy)).split())
        assert "! uncorrectable memory errors (2 ever): results since then may be wrong" in text
        assert "! row remap pending: faulty rows of memory are replaced at the next reset of the GPU" in text
    drawing = Drawing(UNICODE, 76, 1.0, Marks(), recorded=False)
    line = str(short_lines(failing, History(), drawing)[-1])
    assert line.endswith("!")
    assert len(line) <= 76
    text = " ".join(" ".join(map(str, warnings_of_many((failing, failing), drawing))).split())
    assert text.count("! GPU 3: uncorrectable memory errors (2 ever)") == 2


def test_absent_values_say_why_and_are_never_zero() -> None:
    bare = DeviceSnapshot(index=0, name="RTX", state="ok", reasons={"ecc_uncorrected_aggregate": "not supported by this GPU"})
    lines = lines_of(bare, 76)
    assert any(line.startswith("memory errors   — not supported by this GPU") for line in lines)
    assert not any(character.isdigit() for line in lines[1:] if " a cell" not in line for character in line)
    drawing = Drawing(UNICODE, 76, 1.0, Marks(), recorded=True)
    assert "not in this recording" in "\n".join(map(str, roomy_block(DeviceSnapshot(index=0, state="ok"), History(), drawing)))


def test_processes_are_listed_with_the_reason_of_what_is_not_known() -> None:
    drawing = Drawing(UNICODE, 76, 1.0, Marks(), recorded=False)
    hidden = ProcessSnapshot(
        pid=77, kind="compute", reasons={"command": "in a container the driver's process numbers are the host's"}
    )
    known = ProcessSnapshot(
        pid=4123456,
        kind="compute and graphics",
        memory_bytes=2.0**33,
        name="python",
        command="python train.py",
        user="ada",
        gpu_instance=7,
    )
    used, free, closed = (
        DeviceSnapshot(index=0, state="ok", processes=(known, hidden)),
        DeviceSnapshot(index=1, state="ok", processes=()),
        DeviceSnapshot(index=2, state="ok", reasons={"processes": "not permitted for this user or container"}),
    )
    by_number = [str(line) for line in process_lines((used,), drawing, "process")]
    assert ["process▲" in by_number[0], by_number[1].split()[1], by_number[2].split()[1]] == [True, "77", "4123456"]
    assert len({tuple(map(str, process_lines((used,), drawing, order))) for order in ORDERS}) == len(ORDERS)
    head, first, second, why, none = (str(line) for line in process_lines((used, free, closed, free), drawing))
    assert head.split() == ["GPU", "process", "memory▼", "kind", "user", "command"]
    assert first.split() == ["0/7", "4123456", "8.0", "GiB", "both", "ada", "python", "train.py"]
    assert second.split()[:5] == ["0", "77", "—", "compute", "—"]
    assert "in a container" in second
    assert none.split() == ["nobody", "uses", "GPU", "1,", "1"]
    assert why.endswith("— not permitted for this user or container")
    assert all(len(line) <= 76 for line in (head, first, second, none, why))
    (recorded,) = process_lines((used, free), Drawing(UNICODE, 76, 1.0, Marks(), recorded=True), roomy=True)
    assert str(recorded).index("—") == 16  # below the values of a block
    assert "only this machine's driver" in str(recorded)


def asked(calls: Path, since_s: float) -> int:
    """How often the driver was asked for processes since a moment."""
    lines = calls.read_text().splitlines() if calls.exists() else []
    return sum("ComputeRunningProcesses" in line and float(line.split()[0]) >= since_s for line in lines)


def asked_again(screen: Screen, calls: Path, within_s: float = 60.0) -> bool:
    """True if the driver is asked for processes from now on, while the screen is read."""
    began_s = time.monotonic()
    while not asked(calls, began_s) and time.monotonic() - began_s < within_s:
        screen.read(within_s=0.1)
    return asked(calls, began_s) > 0


def asked_no_more(screen: Screen, calls: Path) -> bool:
    """True if the driver is not asked for processes during three seconds; a key is answered later on a busy machine."""
    for _ in range(20):
        since_s = time.monotonic()
        screen.read(within_s=3.0)
        if not asked(calls, since_s):
            return True
    return False


@pytest.mark.process
@needs_compiler
def test_who_uses_a_gpu_is_asked_only_while_it_is_on_screen(tmp_path: Path) -> None:
    control = ControlFile(tmp_path / "control")
    control.devices(H100 | {"proc0.pid": os.getpid(), "proc0.memory": 3 << 30}, A100)
    calls = tmp_path / "calls"
    found = environment(build(tmp_path / "library"), control)
    screen = Screen(
        tmp_path, size=(80, 24), LD_LIBRARY_PATH=found["LD_LIBRARY_PATH"], NVML_STUB=found["NVML_STUB"], NVML_STUB_CALLS=str(calls)
    )  # fmt: skip
    try:
        screen.read(until=b"vendor")
        screen.read(within_s=2.0)
        screen.type(b"4")
        assert b"DRAM traffic" in screen.read(until=b"DRAM traffic")
        screen.read(within_s=1.5)
        assert asked(calls, 0.0) == 0
        screen.type(b"P")
        assert str(os.getpid()).encode() in screen.read(until=str(os.getpid()).encode())
        assert asked_again(screen, calls)
        screen.type(b"2")
        assert asked_no_more(screen, calls)
        screen.type(b"4")
        assert asked_again(screen, calls)
        screen.type(b"2")
        screen.read(within_s=1.5)
        screen.type(b"P")  # from another pane: that of this machine comes, with the list
        assert asked_again(screen, calls)
        for _ in ORDERS:  # the other orders, then no list
            screen.type(b"P")
            screen.read(within_s=0.3)
        assert asked_no_more(screen, calls)
    finally:
        screen.close()


async def test_p_lists_who_uses_the_gpus_from_any_pane_and_says_why_where_there_are_none(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, demo=True, telemetry=True))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        for _ in range(300):
            await pilot.pause(0.05)
            if app.telemetry.sees_gpus:
                break
        assert app.focused is app.table
        await pilot.press("P")
        await pilot.pause()
        assert "processes" in str(app.main.query_one("#machine-text", Static).content)
        assert app.focused is app.table
        await pilot.press("P")
        await pilot.pause()
        assert "processes" not in str(app.main.query_one("#machine-text", Static).content)

    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        await pilot.press("P")
        assert "No GPU is watched" in await first_note(pilot)
