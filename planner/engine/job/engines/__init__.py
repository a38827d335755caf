"""Engines by name and release: records with sources, names that stand for another engine, and how a release is found."""

from planner.engine.job.engines.catalogue import ENGINES, GENERIC
from planner.engine.job.engines.find import find_engine, oldest_in_use, usual_name, without_graphs

__all__ = ["ENGINES", "GENERIC", "find_engine", "oldest_in_use", "usual_name", "without_graphs"]
