"""Agents: the loop that asks a model, runs the tools that it calls, and reports events."""
