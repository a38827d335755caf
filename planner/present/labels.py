"""Labels of the form for the keys of a workload, and messages that name both."""

from __future__ import annotations

import re

from planner.errors import Problem
from planner.workload.changes import LABELS
from planner.workload.tasks import Request

LENGTHS = ("a table of mean, p50, p95", "mean/p95, such as 600/1500")
"""Notation of varying lengths in a file, and in the form."""
IN_PERCENT = {"targets.burst", "targets.headroom", "confidence"}
"""Keys with a share, which the form shows and accepts as a percentage."""
_KEYS = {label.casefold(): key for key, label in LABELS.items()}
_PLAIN_KEYS = sorted((key for key in LABELS if "." in key or "_" in key or "concurrency" in key), key=len, reverse=True)
_NO_WORDS = rf"\b(?:{'|'.join(map(re.escape, _PLAIN_KEYS))})\b"
"""Pattern of keys that are replaced in messages, compiled with the first message; excluded are keys that are also words, such as `batch`."""


def key_of(label: str) -> str:
    """Key of a label that is not a key itself; '' for other text."""
    return "" if label in Request.__struct_fields__ else _KEYS.get(label.casefold(), "")


TOTALS = {"p95": "targets.p95_request_s", "p99": "targets.p99_request_s"}
"""Percentile without a latency -> key for the whole request, as in the box of the screen."""


def with_key(setting: str) -> str:
    """`setting`, 'LABEL=VALUE', with the label replaced by its key; unchanged if the label is a key, unknown, or has another unit."""
    label, equals, value = setting.partition("=")
    key = TOTALS.get(label.strip().casefold()) or key_of(label.strip())
    return f"{key}{equals}{value}" if key and key not in IN_PERCENT else setting


def labelled(key: str) -> str:
    """Label with its key: 'load (request_rate_per_s)'."""
    label = LABELS.get(key, key)
    return key if label == key else f"{label} ({key})"


def with_labels(message: str) -> str:
    """`message` with labels before its keys, and lengths in the notation of the form."""
    return re.sub(_NO_WORDS, lambda found: labelled(found[0]), message.replace(*LENGTHS))


def problem_text(problem: Problem) -> str:
    """Key and message of `problem`, with labels of keys."""
    message = with_labels(problem.message)
    return f"{labelled(problem.key)}: {message}" if problem.key else message
