"""`estimate`: JSON lines in, JSON lines out."""
