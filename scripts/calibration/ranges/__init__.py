"""Ranges from the residuals of published measurements."""
