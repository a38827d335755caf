"""Published measurements, converted to requests and their expected values."""
