"""What is to be run: architectures, tasks, presets."""
