"""Attributes of a candidate's parts, each written once as a field of type `N`: `float` in one record, an array in columns of many."""
