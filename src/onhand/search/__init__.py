"""What is relevant? The one Index: by words, by meaning, by filter, fused, and in full."""
