"""Translate conversations and tools into the formats of model providers, and back: plain data in, plain data out."""
