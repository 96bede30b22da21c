"""Which words match? Terms, the BM25 family over weighted fields, and snippets. Needs nothing but Python."""
