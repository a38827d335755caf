"""Answers as lines of plain text in a given number of cells, for a terminal."""
