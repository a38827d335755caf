"""`validate`: compare predictions with measurements."""
