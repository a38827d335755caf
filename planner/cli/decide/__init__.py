"""Commands for decisions: models for given GPUs, a guided choice, and several workloads on shared hardware."""
