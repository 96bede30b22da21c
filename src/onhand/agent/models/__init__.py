"""Models behind one protocol, which stream what they say."""
