"""One planning session: what the user has, asks and gets."""

from planner.session.decisions import Session

__all__ = ["Session"]
