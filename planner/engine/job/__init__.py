"""What is to be done, with every choice made that does not depend on hardware."""
