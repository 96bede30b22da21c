"""Embedders: texts as vectors, by models in this process or behind an endpoint."""
