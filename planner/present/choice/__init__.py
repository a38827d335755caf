"""Words for choosing a row: the answer in a sentence, what ranks, what narrows the search, what a trial changes."""
