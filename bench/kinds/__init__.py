"""The kinds of work that are measured: a file for each, with its arithmetic and its timing."""
