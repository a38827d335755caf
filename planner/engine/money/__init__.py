"""Money over time: what is owned, rented or billed by the token."""
