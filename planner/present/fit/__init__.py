"""Models that given GPUs can run: the best ones in words, and a table of all."""
