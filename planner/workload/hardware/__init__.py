"""Machines of the user's own: how they are written down, and inventories of clusters."""
