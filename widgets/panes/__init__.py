"""Main screen: its panes and its one-line widgets."""
