"""Readers of the configs of families, each a function or a row of a table."""
