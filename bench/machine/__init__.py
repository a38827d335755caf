"""The device that is measured: its description by the system and its driver, and its clock."""
