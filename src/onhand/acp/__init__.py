"""The ACP door: the agent inside editors, over the Agent Client Protocol."""
