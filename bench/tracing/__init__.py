"""Tracing of a model's own code, without weights: a process of its own, as measuring is."""
