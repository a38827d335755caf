"""Measurement of a service from outside: requests to an OpenAI-compatible server at several loads, and the times of its answers."""
