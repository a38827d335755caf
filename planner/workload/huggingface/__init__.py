"""Models as described on Hugging Face: config.json, family by family, and the hub it comes from."""
