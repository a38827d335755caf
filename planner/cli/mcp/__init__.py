"""`mcp`: tools for agents over the Model Context Protocol (modelcontextprotocol.io)."""
