"""`validate`: predictions against measurements."""
