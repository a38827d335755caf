"""`measurements`: list, show, export, import and remove them."""
