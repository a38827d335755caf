"""Memory of one layer in training: how it is computed, what it keeps for backward, and what is recomputed."""
