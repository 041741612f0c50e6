"""How the daemon and its launcher write to each other: NUL-separated keys and values.

Owns the encoding, not the meaning of any key. Nothing that is handed to `exec` can hold a NUL, so
nothing needs an escape; and `json` would cost the launcher a fifth of its start.
"""


def pack(pairs: list[tuple[str, bytes]]) -> bytes:
    """Return `pairs` as one document.

    Args:
        pairs: keys and values in order; a key may come more than once.

    Raises:
        ValueError: a key or value holds a NUL.
    """
    parts: list[bytes] = []
    for key, value in pairs:
        name = key.encode("ascii")
        if b"\0" in name or b"\0" in value:
            raise ValueError(f"a NUL in {key}")
        parts += (name, value)
    return b"".join(part + b"\0" for part in parts)


def unpack(document: bytes) -> list[tuple[str, bytes]]:
    """Return the pairs of a document that `pack` made.

    Raises:
        ValueError: it is cut short, has a key without a value or a key that is not ASCII.
    """
    if not document:
        return []
    if not document.endswith(b"\0"):
        raise ValueError("the document is cut short")
    parts = document[:-1].split(b"\0")
    if len(parts) % 2:
        raise ValueError("a key has no value")
    return [(parts[i].decode("ascii"), parts[i + 1]) for i in range(0, len(parts), 2)]
