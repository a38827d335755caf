"""One planning session: the user's data, questions and answers."""

from planner.session.decisions import Session

__all__ = ["Session"]
