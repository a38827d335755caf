"""Contents of all answers as sections of typed cells, which the command line, the screen and reports only lay out."""
