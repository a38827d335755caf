"""Search for the candidates of one workload: node types, layouts, costs, targets, ranking."""
