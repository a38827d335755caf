"""`mcp`: the planner as tools of an agent, by the Model Context Protocol (modelcontextprotocol.io)."""
