"""The log of predictions: kept once, read whole or in part, learned from by share, and forgotten."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from planner.engine.answers.answer import Answer
from planner.engine.answers.figure import Figure
from planner.predictions.entries import Pair, Predicted, Range, Seen, identity
from planner.predictions.learning import LEAST, MOST, learned
from planner.predictions.log import MOST_OPEN, PredictionLog
from planner.session import Session
from planner.session.prediction_log import log_results, predicted_and_seen
from planner.workload.published.spreads import published_spreads
from planner.workload.tasks import Request

AT = "2026-11-22T10:00:00Z"


def said(number: int = 0) -> Predicted:
    figures = {"tokens_per_s": Range(100.0 + number, 50.0, 200.0)}
    request: dict[str, Any] = {"model": "llama-3.1-8b", "task": "train", "gpu": "H100 SXM5 80GB"}
    return Predicted(
        id=identity(request, figures),
        at=AT,
        origin="plan",
        request=request,
        figures=figures,
        kinds={"tokens_per_s": "training speed"},
        basis="spec",
        version="0",
    )


def pair(ratio: float, *, model: str = "a", kind: str = "training speed") -> Pair:
    """A result whose error is `ratio` half widths."""
    predicted = Range(100.0, 100 / math.e, 100 * math.e)
    return Pair(
        id="x", kind=kind, origin="plan", gpu="H100", gpus=1, model=model, predicted=predicted, seen=100 * math.exp(ratio), at=AT
    )


def test_a_prediction_is_kept_once_and_read_by_another_process(tmp_path: Path) -> None:
    log = PredictionLog(tmp_path)
    for _ in range(3):
        assert log.add(said()).kept
    assert log.add_seen(Seen(id=said().id, figure="tokens_per_s", value=80.0, at=AT)).kept
    other = PredictionLog(tmp_path)
    assert [one.id for one in other.predicted()] == [said().id]
    (found,) = other.pairs()
    assert (found.seen, found.predicted.value, found.kind) == (80.0, 100.0, "training speed")
    assert log.add_seen(Seen(id=said().id, figure="tokens_per_s", value=90.0, at=AT)).kept
    assert [one.seen for one in other.pairs()] == [90.0], "the last result counts, and what is appended is read"


def test_what_is_removed_is_gone_everywhere(tmp_path: Path) -> None:
    log = PredictionLog(tmp_path)
    log.add(said())
    log.add_seen(Seen(id=said().id, figure="tokens_per_s", value=80.0, at=AT))
    assert log.remove(said().id, "nothing")[0] == 1
    assert (PredictionLog(tmp_path).predicted(), PredictionLog(tmp_path).pairs()) == ([], [])


def test_damage_costs_its_line_alone_and_is_told(tmp_path: Path) -> None:
    log = PredictionLog(tmp_path)
    log.add(said())
    with log.path.open("ab") as file:
        file.write(b'{"predicted": 7}\nnot JSON\n{"seen": {"id": "a", "figure": "b", "value": -1, "at": ""}}\n')
    log.add(said(1))
    other = PredictionLog(tmp_path)
    assert len(other.predicted()) == 2
    assert "3 lines cannot be read" in other.warning


def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    log = PredictionLog(tmp_path)
    log.path.write_text('{"layout": 99}\n')
    before = log.path.read_bytes()
    assert not log.add(said()).kept
    assert "later version" in log.warning
    assert log.path.read_bytes() == before


def test_a_folder_that_cannot_be_written_costs_the_log_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = PredictionLog(tmp_path / "file" / "below")
    assert not log.add(said()).kept
    assert log.predicted() == []


def test_old_plans_without_a_result_are_left_out(tmp_path: Path) -> None:
    log = PredictionLog(tmp_path)
    log._write([line for number in range(MOST_OPEN + 5) for line in [_line(said(number))]])
    log.add_seen(Seen(id=said(0).id, figure="tokens_per_s", value=80.0, at=AT))
    found = [one.id for one in log.predicted()]
    assert len(found) == MOST_OPEN + 1
    assert said(0).id in found, "one with a result stays"
    assert said(1).id not in found


def _line(predicted: Predicted) -> Any:
    from planner.predictions.entries import LogLine

    return LogLine(predicted=predicted)


def test_results_as_published_ones_change_nothing() -> None:
    """Ratios drawn at the published shares are what was expected."""
    known = [ratio for _, ratio in published_spreads().quantiles]
    found = learned(pair(ratio, model=str(number)) for number, ratio in enumerate([0.1, 0.3, *known[:5], 0.2, 0.4, 0.5]))
    assert found["training speed"].factor == pytest.approx(1.0, abs=0.12)


@pytest.mark.parametrize(("ratio", "widens"), [(0.05, False), (2.5, True)])
def test_more_results_move_a_range_further(ratio: float, *, widens: bool) -> None:
    factors = [
        learned(pair(ratio, model=str(number)) for number in range(count))["training speed"].factor for count in (1, 5, 40, 1000)
    ]
    assert factors == sorted(factors, reverse=not widens)
    assert 0.9 < factors[0] < 1.6, "one result moves it little"
    assert factors[-1] == pytest.approx(max(ratio, LEAST), rel=0.2)
    assert LEAST <= min(factors) <= max(factors) <= MOST


def test_one_model_counts_as_few_however_often_it_ran() -> None:
    often = learned([pair(2.5)] * 500)["training speed"]
    assert often.results == 500
    assert often.factor < learned(pair(2.9, model=str(number)) for number in range(500))["training speed"].factor


def test_ranges_learn_from_results_until_they_are_removed(tmp_path: Path) -> None:
    session = Session.open(state=tmp_path, config=tmp_path)
    asked = Request(model="llama-3.1-8b", gpu="H100", task="serve", input_tokens=1000, output_tokens=200)

    def width() -> float:
        (answer,) = session.estimate([replace(asked, concurrency=8)])
        assert isinstance(answer, Answer)
        figure = answer.output_tokens_per_s
        assert figure is not None
        assert ("ranges_by_own_results" in answer.assumed) == bool(session.predictions.pairs())
        return math.log(figure.high / figure.low)

    before, spec = width(), session.estimate([replace(asked, concurrency=8)], basis="spec")
    for clients in (1, 2, 4, 16, 32, 64):
        request = replace(asked, concurrency=clients)
        (answer,) = session.estimate([request], basis="spec")
        assert isinstance(answer, Answer)
        assert answer.output_tokens_per_s is not None
        log_results(
            session,
            [predicted_and_seen(session, request, {"output_tokens_per_s": answer.output_tokens_per_s.value * 1.01}, "import")],
        )
    assert width() < 0.99 * before
    assert session.estimate([replace(asked, concurrency=8)], basis="spec") == spec, "without measurements nothing is learned"
    session.predictions.remove(*(one.id for one in session.predictions.predicted()))
    session.refresh()
    assert width() == pytest.approx(before)


def test_ranges_of_memory_learn_too(tmp_path: Path) -> None:
    session = Session.open(state=tmp_path, config=tmp_path)
    asked = Request(model="llama-3.1-8b", gpu="H100", task="generate", input_tokens=1000, output_tokens=200)

    def total(batch: int, basis: Literal["measured", "spec"] = "measured") -> Figure:
        (answer,) = session.estimate([replace(asked, batch=batch)], basis=basis)
        assert isinstance(answer, Answer)
        assert answer.memory_bytes is not None
        return answer.memory_bytes.total

    def width() -> float:
        return math.log(total(8).high / total(8).value)

    before, spec = width(), total(8, "spec")
    for batch in (1, 2, 4, 16, 32, 64):
        seen = {"memory_bytes": total(batch, "spec").value * 1.01}
        log_results(session, [predicted_and_seen(session, replace(asked, batch=batch), seen, "import")])
    assert width() < 0.99 * before
    assert total(8, "spec") == spec


def test_an_import_is_taken_in_whole_or_not_at_all(tmp_path: Path, run_planner: Callable[..., Any]) -> None:
    where = ("--state", str(tmp_path / "state"), "--config", str(tmp_path))
    good = {"model": "llama-3.1-8b", "gpu": "H100", "task": "serve", "concurrency": 4, "seen": {"output_tokens_per_s": 400}}
    bad = [good | {"gpu": "H1000"}, good | {"seen": {}}, good | {"seen": {"step_s": 1}}, "no object", good | {"task": "serv"}]
    file = tmp_path / "results.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in [good, *bad]))
    done = run_planner(*where, "predictions", "import", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert all(f"results.jsonl:{number}" in done.stderr for number in (3, 4, 5))
    assert "results.jsonl:6: task: 'serv' is not accepted" in done.stderr
    assert not PredictionLog(tmp_path / "state").begun
    file.write_text(json.dumps(good))
    assert run_planner(*where, "predictions", "import", str(file)).stdout == "1 result imported\n"
    assert len(PredictionLog(tmp_path / "state").pairs()) == 1


def test_the_command_tells_what_was_seen_and_validate_counts_it(tmp_path: Path, run_planner: Callable[..., Any]) -> None:
    where = ("--state", str(tmp_path / "state"), "--config", str(tmp_path))
    asked = (*where, "plan", "llama-3.1-8b-lora", "--top", "1", "--gpu", "H100")
    assert "predictions.jsonl" in run_planner(*asked).stderr, "the first time it is told"
    assert "predictions.jsonl" not in run_planner(*asked).stderr
    listed = json.loads(run_planner(*where, "predictions", "list", "--json").stdout)
    (one,) = listed["predictions"]
    value = one["figures"]["tokens_per_s"]["value"]
    told = run_planner(*where, "predictions", "seen", one["id"], f"tokens_per_s={value / 10}")
    assert "outside" in told.stdout
    wrong = run_planner(*where, "predictions", "seen", one["id"], "tokens_per_S=1")
    assert wrong.returncode == 2
    assert "tokens_per_s" in wrong.stderr
    checked = json.loads(run_planner(*where, "validate", "--json").stdout)
    (own,) = checked["own"]
    assert (own["kind"], own["n"], own["coverage"]) == ("own: training speed", 1, 0.0)
    assert "1 prediction removed" in run_planner(*where, "predictions", "remove", "--all").stdout
