"""Screens over the panes, a file each."""
