"""Is this the same as before? One function, for every room that compares contents without keeping them."""

try:
    from _blake2 import blake2b  # hashlib's own, without OpenSSL, whose loading would cost half a start of Python
except ImportError:  # not every Python has it by that name
    from hashlib import blake2b

__all__ = ["digest"]


def digest(content: bytes) -> str:
    """The same for two contents only if they are equal."""
    return blake2b(content, digest_size=16).hexdigest()
