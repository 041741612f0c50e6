"""Makes slugs of titles."""

import re


def slug(title: str) -> str:
    """Return the slug of a title."""
    return "-".join(re.findall("[a-z0-9]+", title.lower()))
