"""One evaluated candidate in detail: its answer, its memory item by item, its time operator by operator."""
