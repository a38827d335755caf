"""Published measurements, read into requests and the values they should give."""
