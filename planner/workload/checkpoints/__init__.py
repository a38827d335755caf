"""Checkpoints on disk and on the hub: names, shapes and formats of their tensors, read only from headers."""
