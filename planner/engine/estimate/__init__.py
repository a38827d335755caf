"""Candidates given in full: their answers, without any search."""
