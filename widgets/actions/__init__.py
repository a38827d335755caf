"""Actions of keys: the registry, and a function for each."""
