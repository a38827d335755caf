"""Matrix products: dense ones in every dtype, those of several matrices at once, and those of matrices with zeros."""
