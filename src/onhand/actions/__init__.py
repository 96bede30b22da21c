"""What touches the machine? A workspace, and what may be done in it."""
