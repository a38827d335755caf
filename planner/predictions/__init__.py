"""Predictions made before the result was known, beside the results: a log of this user, and learning of ranges from it."""
