"""Frozen answers of the engine; front ends only format them."""
