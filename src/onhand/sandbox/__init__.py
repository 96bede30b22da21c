"""What may the process reach? A policy, and what makes the kernel keep it."""
