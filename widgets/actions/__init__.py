"""What keys do: the registry of actions, and a function for each."""
