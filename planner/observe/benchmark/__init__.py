"""A benchmark from outside: its process, what it says, and what is kept of it."""
