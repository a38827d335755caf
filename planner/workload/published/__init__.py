"""Published measurements: files of them, read into requests and the values they should give."""
