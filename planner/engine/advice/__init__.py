"""Advice for GPUs observed over a window: diagnosis, actions, and what each action saves."""
