"""A service measured from outside: requests to an OpenAI-compatible server at rates, and what its answers took."""
