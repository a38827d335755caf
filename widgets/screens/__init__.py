"""What opens over the panes: a file for each screen."""
