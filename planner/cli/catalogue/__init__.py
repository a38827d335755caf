"""Commands that list and show GPUs, models, presets, offers and ceilings."""
