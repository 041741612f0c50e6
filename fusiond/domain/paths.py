"""Names of files: which are refused, which two are the same name, which match a glob.

Owns the rules of `engine.md`, "Names and files refused when freezing", as far as
a name alone can break them, the globs of `collect:` and `match:`, and the media
type that a suffix suggests. What a name refers to on disk is `snapshots`.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

MAX_COMPONENT_BYTES = 255
MAX_PATH_BYTES = 1024
MAX_DEPTH = 32

DEFAULT_MEDIA_TYPE = "application/octet-stream"

_PLAIN = re.compile(r"[ -\[\]-~]+\Z")
# What nearly every name looks like, and nothing is wrong with up to MAX_COMPONENT_BYTES in all.
_ORDINARY = re.compile(
    r"(?:[A-Za-z0-9_-](?:[A-Za-z0-9_. -]*[A-Za-z0-9_-])?/){0,30}+[A-Za-z0-9_-](?:[A-Za-z0-9_. -]*[A-Za-z0-9_-])?\Z"
)
_CATEGORIES = {
    "Cc": "a control character",
    "Cf": "a format character",
    "Co": "a private-use character",
    # Folding of a code point without a meaning yet may change, and with it the collision key.
    "Cn": "an unassigned character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}
# Drawn as nothing and of no format category: variation selectors, fillers, joiners.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)


DOCUMENT_NAMES = frozenset(("@manifest", "@summary"))
"""Names by which an attempt's own documents are read, beside its artifacts."""


def problem_with(path: str) -> str | None:
    """Say why `path` may not name an artifact, or return None when it may.

    Args:
        path: a path relative to some directory, with `/` between components; a
            name that is not UTF-8 is given with surrogates, as `os.fsdecode` does.

    Returns:
        One displayable sentence part such as "has a `..` component", or None.
    """
    if path in DOCUMENT_NAMES:
        return "is the name under which a document of the attempt is read"
    if len(path) <= MAX_COMPONENT_BYTES and _ORDINARY.match(path):
        return None
    if not path:
        return "is empty"
    return _problem_of_characters(path) or _problem_of_shape(path) or _problem_of_size(path)


def _problem_of_characters(path: str) -> str | None:
    if "\\" in path:
        return "has a backslash"
    if _PLAIN.match(path):
        return None
    for character in path:
        category = unicodedata.category(character)
        if category == "Cs":
            return "is not UTF-8"
        if category in _CATEGORIES:
            return f"has {_CATEGORIES[category]} (U+{ord(character):04X})"
    if not unicodedata.is_normalized("NFC", path):
        return "is not in Unicode normal form C"
    return None


def _problem_of_shape(path: str) -> str | None:
    if path.startswith("/"):
        return "is absolute"
    if path.endswith("/"):
        return "ends in a slash"
    components = path.split("/")
    if "" in components:
        return "has an empty component (`//`)"
    if ".." in components:
        return "has a `..` component"
    if "." in components:
        return "has a `.` component"
    # Some file systems and archive formats drop them, so that two names become one.
    if any(each[-1] == "." or each[-1].isspace() for each in components):
        return "has a component that ends in a dot or a space"
    return None


def _problem_of_size(path: str) -> str | None:
    components = path.split("/")
    if len(components) > MAX_DEPTH:
        return f"is {len(components)} components deep, the limit is {MAX_DEPTH}"
    encoded = path.encode()
    if len(encoded) > MAX_PATH_BYTES:
        return f"has {len(encoded)} bytes, the limit is {MAX_PATH_BYTES}"
    longest = max(map(len, encoded.split(b"/")))
    if longest > MAX_COMPONENT_BYTES:
        return f"has a component of {longest} bytes, the limit is {MAX_COMPONENT_BYTES}"
    return None


def collision_key(path: str) -> str:
    """Return the key under which two names are the same name.

    Equal keys mean equal under compatibility caseless matching (Unicode 3.13,
    D146) once characters that draw nothing are left out. Any string has a key.
    """
    if path.isascii():
        return path.lower()
    seen = _INVISIBLE.sub("", "".join(each for each in path if unicodedata.category(each) != "Cf"))
    folded = unicodedata.normalize("NFD", seen).casefold()
    folded = unicodedata.normalize("NFKD", folded).casefold()
    return unicodedata.normalize("NFKD", folded)


def parents_of(paths: Iterable[str]) -> set[str]:
    """Return every directory on the way to the paths."""
    parents: set[str] = set()
    for path in paths:
        end = path.rfind("/")
        while end > 0 and path[:end] not in parents:
            parents.add(path[:end])
            end = path.rfind("/", 0, end)
    return parents


def problem_with_glob(pattern: str) -> str | None:
    """Say why `pattern` may not be a `collect:` or `match:` glob, or return None when it may.

    A glob is a path in which `*` stands for any run of characters within one
    component, `?` for one character, and a component `**` for any number of
    components. Everything else stands for itself; a leading dot is not special.
    """
    if problem := problem_with(pattern):
        return problem
    if any("**" in each and each != "**" for each in pattern.split("/")):
        return "has `**` beside other characters in one component"
    return None


def glob_matches(pattern: str, path: str) -> bool:
    """Say whether the glob `pattern` matches the whole of `path`.

    `a/**` matches what is below `a`, and `**/b` also matches `b`. The time is
    bounded by the lengths alone, whatever the pattern.
    """
    return _compiled(pattern).match(path) is not None


def glob_may_match_below(pattern: str, directory: str) -> bool:
    """Say whether the glob `pattern` could match some path below `directory`."""
    globs, names = pattern.split("/"), directory.split("/")
    for glob, name in zip(globs, names, strict=False):
        if glob == "**":
            return True
        if not glob_matches(glob, name):
            return False
    return len(globs) > len(names)


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
    components = pattern.split("/")
    if components[-1] == "**":
        components.append("*")
    runs: list[list[str]] = [[]]
    for component in components:
        if component == "**":
            runs.append([])
        else:
            runs[-1].append(_component(component))
    if len(runs) == 1:
        return re.compile("/".join(runs[0]) + r"\Z")
    # Between two `**` the earliest match is as good as any later one, so each run is an atomic
    # group: no choice is kept, and no pattern makes the search exponential.
    first = "".join(f"{each}/" for each in runs[0])
    middle = "".join(f"(?>(?:[^/]+/)*?{''.join(f'{each}/' for each in run)})" for run in runs[1:-1])
    return re.compile(f"{first}{middle}(?:[^/]+/)*{'/'.join(runs[-1])}\\Z")


def _component(component: str) -> str:
    pieces = [re.escape(each).replace(r"\?", "[^/]") for each in re.split(r"\*+", component)]
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(f"(?>[^/]*?{each})" for each in pieces[1:-1])
    return f"{pieces[0]}{middle}[^/]*{pieces[-1]}"


def media_type_by_suffix(path: str) -> str:
    """Return the media type that the suffix of `path` suggests, else `application/octet-stream`."""
    _, dot, suffix = path.rpartition("/")[2].rpartition(".")
    return _MEDIA_TYPES.get(suffix.lower(), DEFAULT_MEDIA_TYPE) if dot else DEFAULT_MEDIA_TYPE


# Our own table: the one of the operating system differs from machine to machine.
_MEDIA_TYPES = {
    "csv": "text/csv",
    "css": "text/css",
    "diff": "text/x-diff",
    "gif": "image/gif",
    "gz": "application/gzip",
    "htm": "text/html",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "js": "text/javascript",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "log": "text/plain",
    "md": "text/markdown",
    "ndjson": "application/jsonl",
    "patch": "text/x-diff",
    "pdf": "application/pdf",
    "png": "image/png",
    "rst": "text/x-rst",
    "svg": "image/svg+xml",
    "tar": "application/x-tar",
    "toml": "application/toml",
    "txt": "text/plain",
    "wasm": "application/wasm",
    "webp": "image/webp",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "zip": "application/zip",
    "zst": "application/zstd",
}
