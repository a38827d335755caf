"""Predictions made before the result was known, beside what was seen: a log of this user, and what ranges learn from it."""
