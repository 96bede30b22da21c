"""What does it mean? Texts as vectors, by models that run here, elsewhere, or only in tests."""
