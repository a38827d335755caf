"""One planning session: what the user has, asks and gets."""

from planner.session.session import DEFAULT_PRESET, Session

__all__ = ["DEFAULT_PRESET", "Session"]
