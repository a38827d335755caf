"""Inverse question: for hardware that is given, every model and weight precision that runs on it."""
