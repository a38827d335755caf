"""Supply of a search: quotes of offers on every term, the node types they make and bills."""
