"""Several workloads on one stock of GPUs and offers: the place of each, the commitments, and what is rented by the hour."""
