"""Actions that advice can recommend, for GPUs and for jobs."""
