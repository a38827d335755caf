"""Pane 1: the form of the workload."""
