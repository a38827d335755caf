"""The study of compute per dollar: sizes, crossovers by hand, prices, measured points, and the command."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from repository import RunPlanner
from study_sample import sample_curve, sample_study

from bench.kinds.transformer import study_shape
from bench.study import DEPTH_LAWS as BENCH_LAWS
from bench.study import StudyOptions, steps
from bench.study import depth_of as bench_depth
from planner.engine.answers.study import StudyAnswer, StudyCurve, story
from planner.engine.study.crossovers import leaders
from planner.engine.study.inputs import shape_of
from planner.engine.study.price_sets import price_set, price_set_names
from planner.engine.study.sizes import DEPTH_LAWS, WIDTHS, Study, depth_of, sizes_of
from planner.engine.study.upper_envelope import crossing_range, highest
from planner.errors import UserError
from planner.hardware.ceilings.ceilings import Ceiling, TrainPoint
from planner.hardware.measurements.measurement import Measurement
from planner.present.files.study_svg import study_svg
from planner.session import Session
from planner.workload.huggingface.config import read_architecture
from planner.workload.studies import study_config


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("study")
    return Session.open(state=folder / "state", config=folder / "config")


@pytest.mark.parametrize(
    ("width", "printed", "log2"),
    [(256, 4, 13), (512, 4, 22), (1024, 5, 37), (2048, 6, 63), (4096, 7, 107)],
    # 0.77·8 - 2.5 = 3.66; 0.77·9 - 2.5 = 4.43; 0.77·10 - 2.5 = 5.2, 2^5.2 = 36.8; 5.97, 2^5.97 = 62.7; 6.74, 2^6.74 = 106.9
)
def test_the_depth_law_by_hand(width: int, printed: int, log2: int) -> None:
    assert depth_of(width, "printed") == bench_depth(width, "printed") == printed
    assert depth_of(width, "log2") == bench_depth(width, "log2") == log2
    assert depth_of(width, "12") == bench_depth(width, "12") == 12


def test_a_model_has_one_layer_at_least_and_laws_are_few() -> None:
    assert depth_of(8, "printed") == 1
    assert DEPTH_LAWS == BENCH_LAWS
    for law in ("0", "-3", "deep", "1.5"):
        with pytest.raises(UserError, match="not a depth law"):
            depth_of(256, law)
    with pytest.raises(UserError, match="multiple of 256"):
        sizes_of(Study(widths=(300,)))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_benchmark_trains_the_model_the_planner_predicts(width: int) -> None:
    depth = depth_of(width, "printed")
    shape = study_shape(width, depth, 151936)
    assert read_architecture(study_config(width, depth, 151936)).total == shape.parameters
    named = study_shape(1024, 5, 151936)
    assert named.name == "qwen3-study-w1024"
    assert shape.name in {named.name, f"qwen3-study-w{width}-d{depth}-v151936"}


def test_two_lines_cross_where_they_do_by_hand() -> None:
    grid = [0.0, 1.0, 2.0]
    stretches, (change,) = highest(grid, {"flat": [1.0, 1.0, 1.0], "steep": [0.0, 1.5, 3.0]})
    assert (change.left, change.right, change.dropped) == ("flat", "steep", False)
    assert change.at == pytest.approx(2 / 3)
    assert [(one.name, one.start, one.end) for one in stretches] == [
        ("flat", 0.0, pytest.approx(2 / 3)),
        ("steep", pytest.approx(2 / 3), 2.0),
    ]
    found = crossing_range(grid, [1.0, 1.0, 1.0], [0.0, 1.5, 3.0], [0.3] * 3, change.at)
    # 1 - 1.5 x = ±0.3 at x = 0.7/1.5 and 1.3/1.5
    assert found.low == pytest.approx(0.7 / 1.5)
    assert found.high == pytest.approx(1.3 / 1.5)
    assert not found.low_open
    assert not found.high_open
    wide = crossing_range(grid, [1.0, 1.0, 1.0], [0.0, 1.5, 3.0], [1.2] * 3, change.at)
    assert (wide.low, wide.low_open, wide.high_open) == (0.0, True, False)
    assert wide.high == pytest.approx(2.2 / 1.5)


def test_a_third_line_in_between_gets_its_stretch() -> None:
    _, changes = highest([0.0, 3.0], {"a": [3.0, 0.0], "b": [0.0, 3.0], "c": [1.9, 1.9]})
    assert [(change.left, change.right) for change in changes] == [("a", "c"), ("c", "b")]
    assert [change.at for change in changes] == [pytest.approx(1.1), pytest.approx(1.9)]


def test_a_line_that_ends_hands_over_where_it_ends() -> None:
    _, (change,) = highest([0.0, 1.0, 2.0], {"big": [1.0, 1.0, None], "small": [0.0, 0.1, 0.2]})
    assert (change.left, change.right, change.at, change.dropped) == ("big", "small", 1.5, True)


heights = st.floats(-20, 20).map(lambda value: round(value, 3))


@given(st.lists(st.tuples(heights, heights, heights), min_size=2, max_size=8))
def test_the_leader_is_never_below_another(rows: list[tuple[float, float, float]]) -> None:
    grid = [float(number) for number in range(len(rows))]
    lines = {name: [row[place] for row in rows] for place, name in enumerate("abc")}
    stretches, changes = highest(grid, lines)
    assert stretches[0].start == grid[0]
    assert stretches[-1].end == grid[-1]
    assert [change.at for change in changes] == sorted(change.at for change in changes)

    def height(name: str, x: float) -> float:
        left = min(int(x), len(grid) - 2)
        return lines[name][left] + (lines[name][left + 1] - lines[name][left]) * (x - left)

    for one in stretches:
        middle = (one.start + one.end) / 2
        assert height(one.name, middle) >= max(height(name, middle) for name in lines) - 1e-6


def test_crossovers_of_power_laws_by_hand() -> None:
    answer = sample_study()
    (found,) = answer.crossovers
    # 12/0.44 · s^0.2 = 80/3.59 · s^0.45 with s = size / 100 M: s = (12/0.44 ÷ (80/3.59))^(1/0.25)
    at = 100e6 * (12 / 0.44 / (80 / 3.59)) ** 4
    assert (found.left, found.right, found.cause) == ("L4", "H200 SXM 141GB", "price")
    assert found.parameters.value == pytest.approx(at, rel=1e-6)
    assert found.parameters.low < at < found.parameters.high
    assert found.tokens_per_step.value == 1024
    assert [lead.gpu for lead in answer.leads] == ["L4", "H200 SXM 141GB"]
    assert {(one.left, one.right) for one in answer.pair_crossovers} == {
        ("L4", "H200 SXM 141GB"),
        ("A100 80GB SXM", "H200 SXM 141GB"),
    }
    assert story(answer)[0].startswith("At 22")
    assert story(answer)[1].startswith("A100 80GB SXM leads nowhere at 1.89 $/h; below ")


def test_the_range_is_where_the_shifted_curves_cross() -> None:
    curves = [sample_curve("left", 1e12, 0.0, 1.0, 0.3), sample_curve("right", 1e12, 0.5, 1.0, 0.4)]
    _, (found,) = leaders(Study(), curves)
    assert found.parameters.value == pytest.approx(100e6)
    # the logarithms part by 0.5·ln(size ÷ 100 M) and their difference is uncertain by √(0.3² + 0.4²) = 0.5
    assert found.parameters.low == pytest.approx(100e6 * math.exp(-1))
    assert found.parameters.high == pytest.approx(100e6 * math.exp(1))
    assert not found.open_low
    assert not found.open_high


def test_a_lower_price_makes_a_gpu_lead(session: Session) -> None:
    usual = session.study()
    dearest = {curve.gpu: curve for curve in usual.curves}["L4"]
    assert dearest.leads_below_usd_per_gpu_h is not None
    assert "L4" not in {lead.gpu for lead in usual.leads}
    below = session.study(given={"L4": dearest.leads_below_usd_per_gpu_h * 0.98})
    assert "L4" in {lead.gpu for lead in below.leads}
    above = session.study(given={"L4": dearest.leads_below_usd_per_gpu_h * 1.02})
    assert "L4" not in {lead.gpu for lead in above.leads}


def test_price_sets(session: Session) -> None:
    names = price_set_names(session.offers, session.published_study)
    assert {"cheapest", "runpod", "runpod-secure", "modal", "runpod-secure-2025"} <= set(names)
    for name in names:
        assert price_set(name, session.offers, study=session.published_study).name == name
    l4, b200 = session.gpus.find("L4"), session.gpus.find("B200")
    secure = price_set("runpod-secure", session.offers)
    assert secure.of(l4).usd_per_gpu_h == 0.44
    modal = price_set("modal", session.offers, [("L4", 0.11)])
    assert modal.of(l4).usd_per_gpu_h == 0.11
    past = price_set("runpod-secure-2025", session.offers, study=session.published_study)
    assert past.of(b200).usd_per_gpu_h is None
    assert past.of(b200).text == "runpod-secure-2025 has no price for B200 SXM"
    cheapest = price_set("cheapest", session.offers).of(l4).usd_per_gpu_h
    assert cheapest is not None
    assert cheapest <= 0.44
    with pytest.raises(UserError, match="runpod-secure"):
        price_set("runpod-secur", session.offers)


def test_an_eighth_of_an_instance_is_no_offer_where_a_single_gpu_is_one(session: Session) -> None:
    aws = price_set("aws", session.offers).of(session.gpus.find("L4"))
    assert aws.usd_per_gpu_h is not None
    assert "sold by" not in aws.text
    h100 = price_set("aws", session.offers).of(session.gpus.find("H100"))
    assert h100.usd_per_gpu_h is not None


def test_what_cannot_be_done_is_a_point_with_a_reason(session: Session) -> None:
    answer = session.study(gpus=["L4", "V100 SXM2 16GB"], prices="modal")
    l4, v100 = answer.curves
    fits = [point.reason is None for point in l4.points]
    assert fits == sorted(fits, reverse=True)
    assert not fits[-1]
    assert fits[0]
    assert "GiB short" in str(l4.points[-1].reason)
    assert all(point.flop_per_s is None for point in l4.points if point.reason)
    assert v100.usd_per_gpu_h is None
    assert all(point.flop_per_usd is None for point in v100.points)
    assert any("V100 SXM2 16GB has no FLOP per dollar: modal has no price" in note for note in answer.notes)


def test_larger_batches_are_more_intense_and_faster(session: Session) -> None:
    for curve in session.study(Study(axis="batch")).curves:
        known = [point for point in curve.points if point.flop_per_s]
        assert len(known) >= 5
        assert len({point.parameters for point in known}) == 1
        for quantity in ("flop_per_byte", "flop_per_s"):
            values = [getattr(point, quantity) for point in known]
            values = [value.value if quantity == "flop_per_s" else value for value in values]
            assert values == sorted(values), (curve.gpu, quantity)


def test_the_published_finding_comes_out_with_its_law_and_prices(session: Session) -> None:
    answer = session.study(Study(depth_law="log2"), prices="runpod-secure-2025")
    leading = [lead.gpu for lead in answer.leads]
    assert leading[0] == "L4"
    assert leading[-1] == "H100 PCIe"
    found = next(one for one in answer.pair_crossovers if (one.left, one.right) == ("L4", "H100 PCIe"))
    assert 0.15e9 < found.parameters.value < 1e9
    share = sum(math.log(lead.to_parameters / lead.from_parameters) for lead in answer.leads if lead.gpu.startswith("A100"))
    assert share < 0.2 * math.log(answer.leads[-1].to_parameters / answer.leads[0].from_parameters), "nearly never"
    assert any("within its range" in line for line in answer.published)
    modal = session.study(Study(depth_law="log2"), prices="modal")
    assert [one.parameters.value for one in modal.crossovers] != [one.parameters.value for one in answer.crossovers]


def step(device: str, width: int, batch: int, flop_per_s: float, **changes: object) -> Measurement:
    shape = study_shape(width, depth_of(width, "printed"), 151936)
    flop = shape.step_flop(batch, 256)
    parameters = {"model": shape.name, "width": width, "depth": shape.depth, "vocabulary": shape.vocabulary, "batch": batch}
    given = {
        "point": f"train/{shape.name}/bf16/{batch}x256",
        "kind": "train",
        "device": device,
        "fingerprint": "a-b",
        "dtype": "bf16",
        "parameters": {**parameters, "sequence": 256, "recipe": "amp", "optimizer": "adamw"},
        "value": flop_per_s,
        "low": flop_per_s * 0.98,
        "high": flop_per_s * 1.02,
        "status": "ok",
        "taken_at": "2026-11-21T00:00:00Z",
        "suite": "study",
        "run": "r",
        "flop": flop,
    }
    return Measurement(**{**given, **changes})  # type: ignore[arg-type]  # test helper


def test_what_was_measured_stands_for_the_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.observe.cpu.flop_per_cycle", lambda *_: {"fp32": 32.0, "bf16": 128.0})  # whatever this machine has
    own = Session.open(state=tmp_path / "state", config=tmp_path / "config")
    cpu = own.machine.cpu.name
    own.store.add(step(cpu, 1024, 4, 5e11))
    own.store.add(step(cpu, 256, 4, 3e11))
    answer = own.study()
    mine = next(curve for curve in answer.curves if curve.gpu == cpu)
    assert mine.here
    assert mine.measured_points == 2
    point = next(point for point in mine.points if point.width == 1024)
    assert point.flop_per_s is not None
    assert point.step_s is not None
    assert point.flop_per_s.basis == "measured"
    flop = study_shape(1024, 5, 151936).step_flop(4, 256)
    assert point.step_s.value == pytest.approx(flop / 5e11)
    # the same seconds, but attention counted once under its mask: a few percent fewer FLOP than the benchmark's own count
    assert 0.9 * 5e11 < point.flop_per_s.value <= 5e11
    assert point.flop_per_usd is None
    assert cpu not in {curve.gpu for curve in own.study(Study(vocabulary=32768)).curves}
    assert cpu not in {curve.gpu for curve in own.study(basis="spec").curves}


def test_the_shape_of_older_points_is_that_of_their_model(session: Session) -> None:
    rate = Ceiling(1e12, 0.1, "measured", "")
    named = TrainPoint("p", "bf16", {"model": "qwen3-study-w1024"}, rate, 1.0)
    assert shape_of(named, session.architecture) == (1024, 5, 151936)
    other = TrainPoint("p", "bf16", {"model": "qwen3-0.6b"}, rate, 1.0)
    assert shape_of(other, session.architecture) is None
    gone = TrainPoint("p", "bf16", {"model": "qwen3-study-w9"}, rate, 1.0)
    assert shape_of(gone, session.architecture) is None


def test_the_plan_of_the_suite_ends_where_memory_does() -> None:
    large = steps(StudyOptions(), on_cpu=False, memory_bytes=80e9)
    small = steps(StudyOptions(), on_cpu=False, memory_bytes=24e9)
    assert [step.shape.width for step in large][:3] == [1024, 256, 4096]
    assert {step.shape.width for step in small} < {step.shape.width for step in large}
    assert max(step.needs_bytes for step in small) <= 24e9
    batches = steps(StudyOptions(axis="batch"), on_cpu=False, memory_bytes=80e9)
    assert len({step.shape for step in batches}) == 1
    assert batches[0].batch == 4
    assert {step.shape.vocabulary for step in steps(StudyOptions(), on_cpu=True, memory_bytes=16e9)} == {32768}


def test_the_svg_is_a_picture_of_every_curve() -> None:
    answer = sample_study()
    drawn = ET.fromstring(study_svg(answer))  # noqa: S314  # our own text
    space = "{http://www.w3.org/2000/svg}"
    assert len(list(drawn.iter(f"{space}polyline"))) == 6
    text = " ".join(node.text or "" for node in drawn.iter(f"{space}text"))
    for curve in answer.curves:
        assert curve.gpu in text
    assert "FLOP per dollar" in text
    assert "most FLOP per dollar passes from L4" in text
    unpriced: list[StudyCurve] = [msgspec.structs.replace(curve, points=[]) for curve in answer.curves]
    assert ET.fromstring(study_svg(msgspec.structs.replace(answer, curves=unpriced, crossovers=[]))) is not None  # noqa: S314  # our own drawing


def test_the_command_answers_in_json_as_its_schema_says(run_planner: RunPlanner) -> None:
    done = run_planner("study", "--json", "--depth-law", "log2", "--prices", "runpod-secure-2025")
    assert done.returncode == 0, done.stderr
    answer = msgspec.json.decode(done.stdout, type=StudyAnswer, strict=True)
    assert json.loads(msgspec.json.encode(answer)) == json.loads(done.stdout), "a key that the schema does not know"
    written = json.loads(done.stdout)
    assert {"gpu", "basis", "points"} <= written["curves"][0].keys()
    assert {"parameters", "width", "depth", "flop_per_s", "flop_per_usd"} <= written["curves"][0]["points"][0].keys()
    crossover = written["crossovers"][0]
    assert crossover["from"] == "L4"
    assert crossover["to"]
    assert crossover["parameters"]["low"] <= crossover["parameters"]["value"] <= crossover["parameters"]["high"]


def test_the_command_prints_a_table_writes_charts_and_csv(run_planner: RunPlanner, tmp_path: Path) -> None:
    target = tmp_path / "study.svg"
    done = run_planner("study", "--axis", "batch", "--svg", str(target))
    assert done.returncode == 0, done.stderr
    assert "tokens/step" in done.stdout
    assert "FLOP/$" in done.stdout
    assert "does not fit" in done.stdout
    assert target.read_text().startswith("<svg")
    rows = list(csv.DictReader(io.StringIO(run_planner("study", "--csv", "--gpu", "L4").stdout)))
    assert len(rows) == len(WIDTHS)
    assert rows[0]["gpu"] == "L4"
    assert float(rows[0]["flop_per_s_low"]) < float(rows[0]["flop_per_s"]) < float(rows[0]["flop_per_s_high"])
    assert rows[-1]["flop_per_s"] == ""
    assert rows[-1]["reason"]


def test_as_published_the_finding_comes_out_and_modal_moves_it(run_planner: RunPlanner) -> None:
    """L4 leads to between 0.15 and 1 B parameters, then the H100; the A100 nowhere, or nearly so."""
    answer = msgspec.json.decode(run_planner("study", "--published", "--json").stdout, type=StudyAnswer)
    assert (answer.depth_law, answer.prices, answer.prices_as_of) == ("log2", "runpod-secure-2025", "2025")
    first, last = answer.leads[0], answer.leads[-1]
    assert first.gpu == "L4"
    assert last.gpu.startswith("H100")
    assert 0.15e9 < first.to_parameters < 1e9
    assert 0.15e9 < last.from_parameters < 1e9
    modal = msgspec.json.decode(run_planner("study", "--published", "--prices", "modal", "--json").stdout, type=StudyAnswer)
    assert (modal.depth_law, modal.prices) == ("log2", "modal")
    assert [(lead.gpu, lead.to_parameters) for lead in modal.leads] != [(lead.gpu, lead.to_parameters) for lead in answer.leads]


def test_an_answer_names_its_law_and_the_date_of_its_prices(run_planner: RunPlanner) -> None:
    usual = run_planner("study").stdout
    assert "depth law printed" in usual
    assert "Depth law printed: depth = 0.77 log2(width) - 2.5." in usual
    assert "prices runpod-secure (oldest of 20" in usual
    assert "--published" in usual
    published = run_planner("study", "--published").stdout
    assert "Depth law log2: log2(depth) = 0.77 log2(width) - 2.5." in published
    assert "prices runpod-secure-2025 (oldest of 2025)" in published
    assert "(runpod-secure-2025, 2025)" in published
    assert "--published" not in published
    given = run_planner("study", "--published", "--depth-law", "12").stdout
    assert "12 layers" in given
    assert "prices runpod-secure-2025" in given


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--prices", "modall"), "'modal'"),
        (("--gpu", "L5"), "L5"),
        (("--depth-law", "tall"), "printed, log2"),
        (("--price", "L4"), "L4=0.44"),
        (("--price", "L4=-1"), "GPU=USD"),
        (("--width", "300", "--axis", "batch"), "multiple of 256"),
    ],
)
def test_wrong_wishes_are_told(run_planner: RunPlanner, arguments: tuple[str, ...], said: str) -> None:
    done = run_planner("study", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_without_any_price_the_code_says_so(run_planner: RunPlanner) -> None:
    done = run_planner("study", "--gpu", "V100 SXM2 16GB", "--prices", "modal")
    assert done.returncode == 1
    assert "No GPU of the study has both a speed and a price." in done.stdout
