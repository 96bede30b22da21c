"""Who decides? The loop that asks a model, runs the tools that it calls, and tells what happens."""
