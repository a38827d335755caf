"""Memory, times and rates of a table of candidates, and how far off each may be."""
