"""GPUs and their interconnects as vendors describe them."""
