"""What was measured: points, what they change, what they prove."""
