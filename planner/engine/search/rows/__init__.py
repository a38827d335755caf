"""Rows of a plan: a candidate as an answer, with its network, its terms and its verdict."""
