"""Charts: their data, and drawing them in terminal cells and as SVG."""
