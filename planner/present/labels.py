"""Labels of the form for the keys of a workload, and messages that name both."""

from __future__ import annotations

import re

from planner.errors import Problem
from planner.workload.changes import LABELS
from planner.workload.tasks import Request

LENGTHS = ("a table of mean, p50, p95", "mean/p95, such as 600/1500")
"""Forms of lengths that vary: in a file, and as they are typed."""
IN_PERCENT = {"targets.burst", "targets.headroom", "confidence"}
"""Keys that hold a share, which the form shows and takes as a percentage."""
_KEYS = {label.casefold(): key for key, label in LABELS.items()}
_PLAIN_KEYS = sorted((key for key in LABELS if re.search(r"[._]|concurrency", key)), key=len, reverse=True)
_NO_WORDS = re.compile(rf"\b(?:{'|'.join(map(re.escape, _PLAIN_KEYS))})\b")
"""Keys that a message holds as keys alone; `batch` may be a word of it."""


def key_of(label: str) -> str:
    """The key of a label that is no key itself; '' for any other text."""
    return "" if label in Request.__struct_fields__ else _KEYS.get(label.casefold(), "")


TOTALS = {"p95": "targets.p95_request_s", "p99": "targets.p99_request_s"}
"""A percentile that is said alone -> the key of the whole request's, as in the box of the screen."""


def with_key(setting: str) -> str:
    """`setting`, 'LABEL=VALUE', with the key of its label; as it is where the label is a key, unknown, or takes another number than the key."""
    label, equals, value = setting.partition("=")
    key = TOTALS.get(label.strip().casefold()) or key_of(label.strip())
    return f"{key}{equals}{value}" if key and key not in IN_PERCENT else setting


def labelled(key: str) -> str:
    """A key behind its label: 'load (request_rate_per_s)'."""
    label = LABELS.get(key, key)
    return key if label == key else f"{label} ({key})"


def with_labels(message: str) -> str:
    """`message` with the label before each key in it, and lengths as the form takes them."""
    return _NO_WORDS.sub(lambda found: labelled(found[0]), message.replace(*LENGTHS))


def problem_text(problem: Problem) -> str:
    """The key and the message of `problem`, with the labels of keys."""
    message = with_labels(problem.message)
    return f"{labelled(problem.key)}: {message}" if problem.key else message
