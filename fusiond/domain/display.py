"""Untrusted text made fit to be shown: on a screen, in a log, in an agent's feedback.

Owns the rule of `governance.md`, "Terminal safety": nothing an agent, a file
name, git or a model wrote may move a cursor, hide or turn text. It judges
nothing and knows no screen. Colours belong to the reader of logs alone.
"""

import codecs
import json
import re
import unicodedata
from base64 import b64encode, urlsafe_b64encode

MAX_CHARS = 4096
MAX_COMBINING = 2
MIN_SECRET_BYTES = 8
REDACTED = "[redacted]"

_LINE_UNSAFE = re.compile(r"[^ -~]+")
_TEXT_UNSAFE = re.compile(r"[^\n\t -~]+")
# Printable by category, but drawn as nothing or as a blank: joiner, Hangul and Braille
# fillers, Khmer inherent vowels, Mongolian and general variation selectors.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def display_safe(text: str | bytes, *, max_chars: int = MAX_CHARS, multiline: bool = False) -> str:
    """Return `text` with everything that could deceive or steer a terminal made visible.

    Control, format, surrogate, private, unassigned, line-breaking and invisible
    characters become `<U+202E>`; so does a combining mark without a base or after
    two others.

    Args:
        text: anything; bytes are read as UTF-8, wrong ones become U+FFFD.
        max_chars: how many characters of `text` are shown; a note after them says
            how many were cut.
        multiline: keep line feeds and tabs, and read CR LF as a line feed.
    """
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    if multiline:
        text = text.replace("\r\n", "\n")
    cut = len(text) - max_chars
    if cut > 0:
        text = text[:max_chars]
    unsafe = _TEXT_UNSAFE if multiline else _LINE_UNSAFE
    shown = unsafe.sub(_visible_run, text)
    return f"{shown}… ({cut} more characters)" if cut > 0 else shown


def draws_nothing(text: str) -> bool:
    """Say whether no character of `text` leaves a mark: spaces, controls, fillers and such."""
    return not any(each.isprintable() and not each.isspace() for each in _BLANK.sub("", text))


def _visible_run(match: re.Match[str]) -> str:
    start = match.start()
    marks = 0 if start and match.string[start - 1] not in "\n\t" else MAX_COMBINING
    shown: list[str] = []
    for character in match.group():
        if unicodedata.category(character) in {"Mn", "Me"}:
            marks += 1
            safe = marks <= MAX_COMBINING and not _BLANK.match(character)
        else:
            marks = 0
            # Spaces are "unprintable" to Python, and harmless.
            printable = character.isprintable() or unicodedata.category(character) == "Zs"
            safe = printable and not _BLANK.match(character)
        shown.append(character if safe else f"<U+{ord(character):04X}>")
    return "".join(shown)


# One whole sequence each: CSI; OSC, DCS, SOS, PM, APC with their strings up to a terminator or
# the line's end; every other escape. Both the 7-bit and the 8-bit introducers.
_CONTROL_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|\Z)"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*(?:[0-~]|\Z)"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")

# Shapes of well-known credentials, whatever their value.
_CREDENTIAL = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\A[A-Za-z0-9+/=\s]*-----END [A-Z ]*PRIVATE KEY-----"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"
    r"|\bsk-[A-Za-z0-9_-]{20,}"
    r"|\bxox[abeprs]-[A-Za-z0-9-]{10,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}",
    re.DOTALL,
)


def controlled_output(
    head: bytes, tail: bytes, total: int, hole: tuple[int, int] | None, secrets: tuple[bytes, ...]
) -> str:
    """Return what of a command's output may go into feedback (`governance.md`, Unit gates).

    Control sequences are removed whole, secrets are redacted (also in base64, hex,
    percent and JSON form, and where the cut falls into one), sizes are stated.

    Args:
        head: the first bytes of the output.
        tail: the last bytes of the output; may overlap `head`.
        total: bytes that the command wrote.
        hole: offset and length of what was not even kept, as in `LaunchResult`.
        secrets: values to redact; those under 8 bytes are left, they occur by chance.
    """
    forms = _secret_forms(secrets)
    missing = total - len(head) - len(tail)
    if missing <= 0:
        whole = head + tail[-missing:] if missing else head + tail
        return f"[output: {total} bytes]\n{_controlled(whole, forms)}"
    stated = f"[output: {total} bytes; {len(head)} from its head and {len(tail)} from its tail follow]"
    lost = f", {hole[1]} of them were not kept" if hole else ""
    shown_head = _controlled(_without_partial(head, forms, at_end=True), forms, cut_after=True)
    shown_tail = _controlled(_without_partial(tail, forms, at_end=False), forms, cut_before=True)
    return f"{stated}\n{shown_head}\n[{missing} bytes left out{lost}]\n{shown_tail}"


def _controlled(
    data: bytes, forms: tuple[bytes, ...], *, cut_before: bool = False, cut_after: bool = False
) -> str:
    if cut_before:
        # The rest of a character whose first byte was left out.
        data = data[:4].lstrip(bytes(range(0x80, 0xC0))) + data[4:]
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=not cut_after)
    # Before and after: a sequence may be inside a secret, or a secret around a sequence.
    text = _redact(text, forms).replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROL.sub("", _CONTROL_SEQUENCE.sub("", text))
    text = _redact(text, forms)
    return display_safe(text, max_chars=len(text), multiline=True)


def _redact(text: str, forms: tuple[bytes, ...]) -> str:
    if forms:
        known = "|".join(re.escape(each.decode(errors="replace")) for each in forms)
        text = re.sub(known, REDACTED, text)
    return _CREDENTIAL.sub(REDACTED, text)


def _without_partial(data: bytes, forms: tuple[bytes, ...], *, at_end: bool) -> bytes:
    """Return `data` without the piece of a secret that the cut left at its edge."""
    for length in range(max(map(len, forms), default=0) - 1, 0, -1):
        piece = data[-length:] if at_end else data[:length]
        edge = bytes.startswith if at_end else bytes.endswith
        if len(piece) == length and any(len(each) > length and edge(each, piece) for each in forms):
            return data[:-length] if at_end else data[length:]
    return data


def _secret_forms(secrets: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return every form to look for, the longest first."""
    forms: set[bytes] = set()
    for secret in secrets:
        if len(secret) >= MIN_SECRET_BYTES:
            forms.update(_forms_of(secret))
    return tuple(sorted(forms, key=lambda each: (-len(each), each)))


def _forms_of(secret: bytes) -> set[bytes]:
    forms = {secret, secret.hex().encode(), secret.hex().upper().encode()}
    for plain in (b"", b"/", b"-._~", b"-._~/"):
        quoted = "".join(chr(each) if _unreserved(each, plain) else f"%{each:02X}" for each in secret)
        forms.update((quoted.encode(), quoted.replace("%20", "+").encode(), _lower_percent(quoted)))
    text = secret.decode(errors="replace")
    forms.update(json.dumps(text, ensure_ascii=each)[1:-1].encode() for each in (True, False))
    # In base64 a byte's letters depend on its position modulo three; the letters that share
    # bits with neighbours are left off.
    for before in range(3):
        for encode in (b64encode, urlsafe_b64encode):
            letters = encode(bytes(before) + secret)
            first, last = -(-8 * before // 6), 8 * (before + len(secret)) // 6
            forms.add(letters[first:last])
    return forms


def _unreserved(byte: int, plain: bytes) -> bool:
    return (chr(byte).isascii() and chr(byte).isalnum()) or byte in plain


def _lower_percent(quoted: str) -> bytes:
    return re.sub("%..", lambda match: match.group().lower(), quoted).encode()
