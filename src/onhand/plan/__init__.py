"""Plans: a graph of steps that depend on each other, in memory or in a file."""
