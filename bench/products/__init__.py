"""Matrix products: dense ones in every dtype, grouped ones, and those of matrices with zeros."""
