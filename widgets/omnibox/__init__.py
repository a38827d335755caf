"""Box that takes a model, a preset, a GPU, a command or a setting."""
