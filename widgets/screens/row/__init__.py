"""Screens about one row of the plan, or several beside each other."""
