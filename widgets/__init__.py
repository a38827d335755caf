"""The terminal front end; only this package knows Textual."""
