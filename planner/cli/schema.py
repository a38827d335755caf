"""`gpu-planner schema`: the JSON Schema of each thing that goes in or comes out, made from the code."""

from __future__ import annotations

import json

import click

SUBJECTS = ("request", "answer", "plan", "preset", "measurement", "study", "snapshot", "advice")


@click.command()
@click.argument("subject", type=click.Choice(SUBJECTS))
def schema(subject: str) -> int:
    """Print the JSON Schema of SUBJECT.

    request: a line of `estimate`; answer: what it says; plan: what `plan --json` says; preset: a workload file;
    measurement: one point of a benchmark; study: what `study --json` says;
    snapshot: a line of `watch --json`; advice: what `rightsize --json` says.
    """
    import msgspec

    from planner.engine.answers import Answer, Plan
    from planner.engine.rightsizing import Advice
    from planner.engine.study_answers import StudyAnswer
    from planner.hardware.measurements import Measurement
    from planner.observe.snapshot import Snapshot
    from planner.workload.tasks import Request, Workload

    described: dict[str, type[msgspec.Struct]] = {
        "request": Request,
        "answer": Answer,
        "plan": Plan,
        "preset": Workload,
        "measurement": Measurement,
        "study": StudyAnswer,
        "snapshot": Snapshot,
        "advice": Advice,
    }
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(described[subject])}
    click.echo(json.dumps(document, indent=2))
    return 0
