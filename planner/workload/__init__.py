"""Workloads: architectures of models, tasks, presets."""
