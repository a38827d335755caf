"""Rows of evaluated candidates that become answers, and what is computed for them alone."""
