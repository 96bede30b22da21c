"""Lexical search: tokenizers, the BM25 family over weighted fields, and snippets. Needs only the standard library."""
