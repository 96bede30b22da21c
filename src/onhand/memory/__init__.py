"""What was done before? Answers that can be given again, and what depends on what."""
