"""Charts: their data, and how they are drawn in terminal cells and as SVG."""
