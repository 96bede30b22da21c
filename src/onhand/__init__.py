"""onhand: everything an agent might need is on hand; nothing it does not need is in the prompt.

The public names are loaded on first use, so that `import onhand` costs nothing.
"""

__version__ = "0.1.0"
