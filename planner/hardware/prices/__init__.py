"""What GPUs cost to rent, and how the prices are kept up to date."""
