"""`gpu-planner schema`: JSON Schemas of inputs and outputs, derived from the code."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import click

SUBJECTS = {
    "request": ("planner.workload.tasks", "Request"),
    "answer": ("planner.engine.answers.answer", "Answer"),
    "plan": ("planner.engine.answers.plan", "Plan"),
    "fit": ("planner.engine.answers.fit", "Fit"),
    "answers": ("planner.engine.procurement.guide", "Answers"),
    "portfolio": ("planner.engine.procurement.portfolio.records", "PortfolioFile"),
    "preset": ("planner.workload.tasks", "Workload"),
    "measurement": ("planner.hardware.measurements.measurement", "Measurement"),
    "study": ("planner.engine.answers.study", "StudyAnswer"),
    "snapshot": ("planner.observe.snapshot", "Snapshot"),
    "advice": ("planner.engine.advice.advice", "Advice"),
    "result": ("planner.observe.results.compared", "Compared"),
    "traffic": ("planner.workload.traffic.summary", "Traffic"),
    "replay": ("planner.engine.answers.replay", "Replay"),
}
"""Subject -> module and struct; only that of the given subject is loaded."""


@click.command()
@click.argument("subject", type=click.Choice(tuple(SUBJECTS)), required=False, metavar="[SUBJECT]")
@click.option(
    "--all",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write a file SUBJECT.json for each subject into this folder.",
)
def schema(subject: str | None, folder: Path | None) -> int:
    """Print the JSON Schema of SUBJECT, or write the schemas of all subjects into a folder.

    preset, portfolio, answers: files for `plan`, `portfolio` and `guide --answers`; request: a line for `estimate`, and answer: its answer; plan,
    fit, study, traffic, replay: output of these commands with --json; advice: output of `rightsize`, snapshot: a line of `watch`, result: one
    of `measurements import`; measurement: one point of a benchmark.
    """
    if (subject is None) == (folder is None):
        raise click.UsageError(f"Give a subject ({', '.join(SUBJECTS)}), or --all FOLDER.")
    if subject is not None:
        click.echo(schema_of(subject))
        return 0
    assert folder is not None
    from planner.durable import write_out
    from planner.errors import Problem, UserError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise UserError(Problem("--all", "", f"{folder} is not a folder and cannot be created: {error}.")) from None
    for name in SUBJECTS:
        write_out(folder / f"{name}.json", schema_of(name) + "\n")
    return 0


def schema_of(subject: str) -> str:
    """JSON Schema of `subject` as text."""
    import msgspec

    module, name = SUBJECTS[subject]
    described = getattr(importlib.import_module(module), name)
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(described)}
    return json.dumps(document, indent=2)
