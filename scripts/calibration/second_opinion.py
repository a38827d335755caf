"""Compare `aiconfigurator`, or its successor `aisimulate`, with the planner: both predict the same published services.

    scripts/calibration/second_opinion.py FOLDER [--python FILE] [--answers FILE] [--out FILE]

FOLDER holds published measurements (docs/evidence/validation.md); the planner's own reader converts a row to a request, and
other_planner/questions.py converts that to aiconfigurator's terms. `--python`: the interpreter in which either is installed (`make
second-opinion` makes a separate one with aiconfigurator; nothing of the planner depends on it). `--answers`: its answers, one JSON object
per line; questions that are answered there are not asked again, and new answers are added. `--out`: also write the tables as a page.

Exit code 0: something was compared; 1: nothing was, or aiconfigurator is needed and not installed.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from fitting import ROOT, experiments_of, markdown_table, options_of, plain_session
from msgspec.structs import replace
from other_planner.questions import question_of

import planner
from planner.engine.answers.answer import Answer
from planner.engine.validation import Comparison, Score, compared, score
from planner.session import Session
from planner.workload.published.experiments import Experiment
from planner.workload.published.rules import NotPredicted

PYTHON = ROOT / ".venv-second-opinion" / "bin" / "python"
ASK = Path(__file__).parent / "other_planner" / "ask.py"
TEMPLATE = Path(__file__).parent / "pages" / "second-opinion.md"
TASKS = frozenset({"serve", "generate", "prefill"})
TIMES = ("ttft_s", "prefill_s", "tpot_s", "decode_tokens_per_s", "request_s", "output_tokens_per_s", "requests_per_s")
"""Quantities that both predict."""
NAMES = ("aiconfigurator", "aisimulate")
"""Packages that may be asked; the second is the successor of the first."""
PAIR = ("both", "ours: median", "p90", "signed", "theirs: median", "p90", "signed")
NARRATED_EVERY = 50
FEW = 14


@dataclass(slots=True)
class Opinions:
    """Every value that the planner predicts, with the other's prediction."""

    ours: list[Comparison] = field(default_factory=list)
    theirs: list[Comparison] = field(default_factory=list)
    """The values that both predict, in the same order."""
    unanswered: Counter[str] = field(default_factory=Counter)
    """Values by the reason why they are not compared."""
    missing: Counter[str] = field(default_factory=Counter)
    """Values by kind that the planner predicts and the other does not."""
    tables: Counter[str] = field(default_factory=Counter)
    """Values by the release whose timings the other used."""


def questions_of(
    session: Session, experiments: Sequence[Experiment], answers: Sequence[Answer | Exception]
) -> list[dict[str, Any] | str]:
    """The question for each experiment, or the reason why there is none."""
    return [_question(session, *pair) for pair in zip(experiments, answers, strict=True)]


def _question(session: Session, experiment: Experiment, answer: Answer | Exception) -> dict[str, Any] | str:
    request = experiment.request
    if not isinstance(answer, Answer):
        return "the planner does not answer either"
    config = request.model if isinstance(request.model, dict) else session.models.config(request.model)
    try:
        return question_of(request, answer, session.gpus.find(request.gpu).name, config)
    except NotPredicted as why:
        return str(why)


def their_answers(
    questions: Iterable[dict[str, Any]], python: Path, record: Path
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """(versions, answers by key): recorded and new ones; new ones are added to `record`."""
    versions, known = read_record(record)
    wanted = {question["key"]: question for question in questions if question["key"] not in known}
    if not wanted:
        return versions, known
    if not python.exists():
        sys.exit(f"aiconfigurator is not installed: no {python}. make second-opinion DIR=… installs it.")
    lines = "".join(json.dumps(question) + "\n" for question in wanted.values())
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as said, record.open("a", encoding="utf-8") as kept:
        given.write(lines)
        given.seek(0)
        with subprocess.Popen([str(python), str(ASK)], stdin=given, stdout=subprocess.PIPE, stderr=said, text=True) as process:
            for number, line in enumerate(process.stdout or ()):
                kept.write(line)
                kept.flush()
                if number % NARRATED_EVERY == 0:
                    print(f"asked {number} of {len(wanted)}", file=sys.stderr)
        if process.returncode:
            said.seek(0)
            sys.exit(said.read().strip() or f"aiconfigurator ended with {process.returncode}")
    return read_record(record)


def read_record(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """(versions, answers by key) of a file of answers; empty if it does not exist. The last answer of a key counts."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    versions = [line["versions"] for line in lines if "versions" in line]
    return versions[-1] if versions else {}, {line["key"]: line for line in lines if "key" in line}


def opinions(
    experiments: Sequence[Experiment],
    answers: Sequence[Answer | Exception],
    questions: Sequence[dict[str, Any] | str],
    said: Mapping[str, Mapping[str, Any]],
) -> Opinions:
    """Each value of a time or a rate, with both predictions."""
    found = Opinions()
    for experiment, answer, question in zip(experiments, answers, questions, strict=True):
        theirs = {"error": question} if isinstance(question, str) else said.get(question["key"], {"error": "not asked"})
        of_times = replace(experiment, values=[value for value in experiment.values if value.quantity in TIMES])
        for value, ours in zip(of_times.values, compared([of_times], [answer]), strict=True):
            if ours.predicted is None:
                found.unanswered["the planner does not answer either"] += 1
            elif (predicted := theirs.get(value.quantity)) is None:
                found.unanswered[str(theirs.get("error") or f"it does not predict {value.quantity}")] += 1
                found.missing[ours.kind] += 1
            else:
                found.ours.append(ours)
                found.theirs.append(replace(ours, predicted=float(predicted), low=None, high=None))
                found.tables[f"{ours.framework} by {theirs['tables']}"] += 1
    return found


def by_kind(found: Opinions) -> str:
    """One line per kind: how many values both predict, how many the other does not, and both errors."""
    kinds = sorted({one.kind for one in found.ours} | found.missing.keys())
    rows = [[kind, *_pair(found, kind), str(found.missing[kind])] for kind in kinds]
    return markdown_table(["kind", *PAIR, "only ours"], rows)


def by_source(found: Opinions) -> str:
    """One line per kind and source."""
    kinds = sorted({(one.kind, one.source) for one in found.ours})
    return markdown_table(["kind", "source", *PAIR], [[*kind, *_pair(found, *kind)] for kind in kinds], text_columns=2)


def _pair(found: Opinions, kind: str, source: str | None = None) -> list[str]:
    """Errors of both on the same values."""
    ours, theirs = (
        [one for one in side if one.kind == kind and source in {None, one.source}] for side in (found.ours, found.theirs)
    )
    return [str(len(ours)), *_errors(score(kind, ours)), *_errors(score(kind, theirs))]


def _errors(one: Score) -> list[str]:
    shown = ((one.median_error, ".1%"), (one.p90_error, ".1%"), (one.signed_error, "+.1%"))
    return ["—" if value is None else format(value, form) for value, form in shown]


def listed(counts: Counter[str], noun: str) -> str:
    """Counts, the largest first."""
    few, more = counts.most_common(FEW), sum(counts.values()) - sum(count for _, count in counts.most_common(FEW))
    rows = [[name, str(count)] for name, count in few] + ([["others", str(more)]] if more else [])
    return markdown_table([noun, "values"], rows)


def page(found: Opinions, versions: Mapping[str, str], folder: str) -> str:
    """The page to commit."""
    name = next((one for one in NAMES if one in versions), NAMES[0])
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        version=planner.__version__,
        name=name,
        theirs=", ".join(f"{name} {number}" for name, number in versions.items()) or "unknown versions",
        folder=folder,
        both=f"{len(found.ours):,}",
        all=f"{len(found.ours) + sum(found.unanswered.values()):,}",
        by_kind=by_kind(found),
        by_source=by_source(found),
        unanswered=listed(found.unanswered, f"why a value is not compared (it: {name})"),
        tables=listed(found.tables, "engine measured, and the timings that stood for it"),
    )


def main() -> None:
    """Ask both, print the tables and write the page."""
    options = options_of(__doc__)
    options.add_argument("--python", type=Path, default=PYTHON)
    options.add_argument("--answers", type=Path)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    session = plain_session()
    published = experiments_of(session, given.folder)
    experiments = [one for one in published.experiments if one.request.task in TASKS]
    answers = session.estimate([one.request for one in experiments], basis="spec")
    questions = questions_of(session, experiments, answers)
    with tempfile.TemporaryDirectory() as apart:
        record = given.answers or Path(apart) / "answers.jsonl"
        versions, said = their_answers([one for one in questions if isinstance(one, dict)], given.python, record)
    found = opinions(experiments, answers, questions, said)
    written = page(found, versions, published.folder)
    print(written)
    if given.out:
        given.out.write_text(written.rstrip() + "\n", encoding="utf-8")
    sys.exit(0 if found.ours else 1)


if __name__ == "__main__":
    main()
