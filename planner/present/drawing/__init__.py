"""Charts: what they hold, and how they are drawn in the cells of a terminal and as SVG."""
