"""What could run it: GPUs as their vendors describe them, what they cost, what they really reach."""
