"""Jobs for other machines, as files of the tools that run them: benchmarks of GPUs, and the job of a plan."""

from typing import Literal, get_args

Form = Literal["sky", "slurm", "kubernetes", "jobset", "kueue", "lws", "kserve", "dstack"]
"""Tools that a plan can be written for."""
FORMS: tuple[Form, ...] = get_args(Form)
