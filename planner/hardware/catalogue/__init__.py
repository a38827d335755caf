"""GPUs and networks as their vendors describe them."""
