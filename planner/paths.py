"""Folders of the shipped presets and of the user's config and state, and the default preset."""

from __future__ import annotations

from pathlib import Path

DEFAULT_PRESET = "llama-3.1-70b-chat-service"
"""The workload that is planned when none is named."""


def presets_folder() -> Path:
    """The folder `presets/` of the installed package."""
    import presets

    return Path(next(iter(presets.__path__)))


def config_folder() -> Path:
    """Folder of the user's presets and config.toml (not created here)."""
    import platformdirs

    return Path(platformdirs.user_config_dir("gpu-planner", appauthor=False))


def state_folder() -> Path:
    """Folder of measurements and the last form (not created here)."""
    import platformdirs

    return Path(platformdirs.user_state_dir("gpu-planner", appauthor=False))
