"""The one Index: search by words, by meaning, by filter, and by words and meaning fused."""
