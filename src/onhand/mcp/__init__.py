"""The MCP door: it translates requests into calls and results into responses, and holds no rule about search."""
