"""Several workloads on one stock of GPUs and offers: which runs where, what is committed to, and what is rented by the hour."""
