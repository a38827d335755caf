"""Job files for other machines, in the formats of several tools: benchmarks of GPUs, and the job of a plan."""

from typing import Literal, get_args

Form = Literal["sky", "slurm", "kubernetes", "jobset", "kueue", "lws", "kserve", "dstack"]
"""Tools for which a plan can be written as a job."""
FORMS: tuple[Form, ...] = get_args(Form)
