"""Compute-per-dollar study: speed and FLOP per dollar against size, and where the best GPU changes."""
