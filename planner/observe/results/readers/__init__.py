"""The formats of other tools, a module or a few lines each: how a file of them is recognised and read. `planner.observe.results.read` lists them."""
