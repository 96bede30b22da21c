"""The semantic cache: answers that can be given again."""
