"""Kinds of work that are measured, each in one file with its arithmetic and its timing."""
