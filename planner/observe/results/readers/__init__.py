"""One module for each format: `READER` says how a file of it is recognised and read. `planner.observe.results.read` lists them."""
