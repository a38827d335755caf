"""Models and adapters beside the one that is run: on the same GPUs, or drafting for it."""
