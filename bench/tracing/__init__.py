"""What a model's own code does, traced without weights: a process of its own, as measuring is."""
