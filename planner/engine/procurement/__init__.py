"""Ways of paying for work (rent by term, purchase, or an API), and several workloads on one stock."""
