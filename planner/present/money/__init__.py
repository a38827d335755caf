"""Prices, costs over years, owned hardware and portfolios, as sections."""
