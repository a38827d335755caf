"""Pane 2: the ranked rows of the plan."""
