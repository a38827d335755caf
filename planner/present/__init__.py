"""Every answer said once, as sections of typed cells; the command line, the screen and reports only lay them out."""
