"""How does an editor drive the agent? The Agent Client Protocol over the standard streams."""
