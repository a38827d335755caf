"""The table of commands: each a module of its own, imported only when that command runs."""

from __future__ import annotations

from planner.cli.groups import LazyCommand

COMMANDS = {
    "plan": LazyCommand("planner.cli.plan.command", "plan", "Rank GPUs, counts and layouts for one workload."),
    "report": LazyCommand(
        "planner.cli.report", "report", "Write the decision for one workload, with its reasons, as a file to keep."
    ),
    "estimate": LazyCommand(
        "planner.cli.estimate.command", "estimate", "Evaluate fully given candidates: JSON lines in, JSON lines out."
    ),
    "fit": LazyCommand(
        "planner.cli.decide.fit", "fit", "What given GPUs can run: every model, precision, context and number of users."
    ),
    "guide": LazyCommand(
        "planner.cli.decide.guide", "guide", "From five answers to a decision: profile, bottleneck, size, where, commitment."
    ),
    "portfolio": LazyCommand(
        "planner.cli.decide.portfolio", "portfolio", "Several workloads on one stock: what to own, commit to, and rent by the hour."
    ),
    "bench": LazyCommand("planner.cli.bench.command", "bench", "Measure this machine; results are kept and used by plan."),
    "study": LazyCommand(
        "planner.cli.study", "study", "Compute per dollar over model or batch sizes, and where the best GPU changes."
    ),
    "traffic": LazyCommand(
        "planner.cli.traffic.command", "traffic", "What recorded requests say: rate by hour, lengths, bursts; as a preset."
    ),
    "replay": LazyCommand("planner.cli.replay.command", "replay", "Serve the requests of a recorded trace, hour by hour."),
    "watch": LazyCommand("planner.cli.watch.command", "watch", "Telemetry of this machine's GPUs."),
    "rightsize": LazyCommand(
        "planner.cli.watch.rightsize", "rightsize", "Advice from what GPUs are seen to do, with what it saves."
    ),
    "gpus": LazyCommand("planner.cli.catalogue.gpus", "gpus", "List GPUs, or show one."),
    "models": LazyCommand("planner.cli.catalogue.models", "models", "List models, or show one."),
    "presets": LazyCommand("planner.cli.catalogue.presets", "presets", "List workload presets, or show one."),
    "offers": LazyCommand("planner.cli.catalogue.offers", "offers", "List prices, or show those of one GPU."),
    "ceilings": LazyCommand(
        "planner.cli.catalogue.ceilings", "ceilings", "Show what a GPU is taken to reach, and what measuring changed."
    ),
    "measurements": LazyCommand(
        "planner.cli.measurements.command", "measurements", "List, show, export, import or remove measurements."
    ),
    "predictions": LazyCommand(
        "planner.cli.predictions.command", "predictions", "List what was predicted; note what was seen of it."
    ),
    "schema": LazyCommand("planner.cli.schema", "schema", "Print the JSON Schema of what goes in and out."),
    "validate": LazyCommand(
        "planner.cli.validate.command", "validate", "Compare predictions with published measurements and your own."
    ),
    "completion": LazyCommand("planner.cli.completion", "completion", "Print what makes a shell complete the command line."),
    "mcp": LazyCommand("planner.cli.mcp.command", "mcp", "Serve an agent: the planner as tools of the Model Context Protocol."),
    "doctor": LazyCommand("planner.cli.doctor", "doctor", "Show what there is: driver, torch, folders, prices."),
    "help": LazyCommand("planner.cli.help", "help_command", "Explain a command, or all of them: a tree, Markdown, a manual page."),
}
