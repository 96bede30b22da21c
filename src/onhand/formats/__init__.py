"""How does a model spell a tool? One file for each provider or form; each turns plain data into plain data."""
