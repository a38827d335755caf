"""Models as Hugging Face describes them: config.json, family by family, and the hub it comes from."""
