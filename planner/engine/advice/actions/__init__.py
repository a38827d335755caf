"""Actions that advice can name: to GPUs, and to jobs."""
