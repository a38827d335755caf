"""Ceilings: the compute rates, bandwidths and latencies that devices really reach, each with a basis and a spread."""
