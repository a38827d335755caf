"""What is measured on: the device, what the system and its driver say of it, and its clock."""
