"""Models that given GPUs can run: the best of them in words, and the table of all."""
