"""Corpora: each turns its source into searchable documents and offers tools over them."""
