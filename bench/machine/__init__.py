"""The measured device: its description by the system and its driver, and its timer."""
