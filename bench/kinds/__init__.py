"""What is measured: a file a kind of work, with its arithmetic and how it is timed."""
