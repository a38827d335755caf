"""Texts for choosing a row: the answer in a sentence, the ranking, filters, and the effect of trials."""
