"""Memory of other work on the same GPUs."""
