"""Untrusted text on a screen, and command output in feedback."""

import base64
import json
import unicodedata
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.domain.display import MAX_COMBINING, controlled_output, display_safe

SECRET = b"hunter2/hunter2 \xc3\xa9"
HARMLESS = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Me", "Mc", "Nd", "Nl", "No", "Zs"} | {
    "Pc",
    "Pd",
    "Ps",
    "Pe",
    "Pi",
    "Pf",
    "Po",
    "Sm",
    "Sc",
    "Sk",
    "So",
}


@pytest.mark.parametrize(
    "text,shown",
    [
        ("plain text", "plain text"),
        ("\u65e5\u672c caf\u00e9 \U0001f600", "\u65e5\u672c caf\u00e9 \U0001f600"),
        ("a\nb\tc\rd", "a<U+000A>b<U+0009>c<U+000D>d"),
        ("\x1b[2J", "<U+001B>[2J"),
        ("\x9b2J\x7f", "<U+009B>2J<U+007F>"),
        ("a\u202egnp.exe", "a<U+202E>gnp.exe"),
        ("\u2066\u200b\ufeff\u00ad", "<U+2066><U+200B><U+FEFF><U+00AD>"),
        ("\u2028\u2029", "<U+2028><U+2029>"),
        ("\ue000\uffff\ud800", "<U+E000><U+FFFF><U+D800>"),
        ("x\ufe0f\U000e0100\U000e0041", "x<U+FE0F><U+E0100><U+E0041>"),
        ("\u115f\u3164\uffa0\u2800\u034f", "<U+115F><U+3164><U+FFA0><U+2800><U+034F>"),
        ("e\u0301\u0301\u0301\u0301", "e\u0301\u0301<U+0301><U+0301>"),
        ("\u0301a", "<U+0301>a"),
        (b"caf\xc3\xa9 \xff", "caf\u00e9 \ufffd"),
        ("", ""),
        ("[red]a[/red]", "[red]a[/red]"),
    ],
)
def test_what_could_deceive_is_made_visible(text: str | bytes, shown: str) -> None:
    assert display_safe(text) == shown


def test_multiline_keeps_lines_and_tabs() -> None:
    assert display_safe("a\r\nb\tc\rd\n\u0301", multiline=True) == "a\nb\tc<U+000D>d\n<U+0301>"


def test_a_cut_says_how_much() -> None:
    assert display_safe("a" * 10, max_chars=10) == "a" * 10
    assert display_safe("a" * 10, max_chars=4) == "aaaa\u2026 (6 more characters)"
    assert display_safe("\x1b" * 10, max_chars=1) == "<U+001B>\u2026 (9 more characters)"


@given(text=st.one_of(st.text(), st.binary()), multiline=st.booleans())
def test_nothing_that_steers_a_terminal_is_left(text: str | bytes, *, multiline: bool) -> None:
    shown = display_safe(text, multiline=multiline)
    marks = 0
    for character in shown:
        category = unicodedata.category(character)
        assert category in HARMLESS or (multiline and character in "\n\t")
        marks = marks + 1 if category in ("Mn", "Me") else 0
        assert marks <= MAX_COMBINING


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=200))
def test_ascii_text_is_shown_as_it_is(text: str) -> None:
    assert display_safe(text) == text


def test_whole_output_is_stated_once() -> None:
    assert controlled_output(b"one\ntwo\n", b"", 8, None, ()) == "[output: 8 bytes]\none\ntwo\n"


def test_head_and_tail_that_overlap_are_joined() -> None:
    assert controlled_output(b"abcdef", b"defghi", 9, None, ()) == "[output: 9 bytes]\nabcdefghi"
    assert controlled_output(b"abc", b"abc", 3, None, ()) == "[output: 3 bytes]\nabc"


def test_what_was_left_out_is_stated() -> None:
    shown = controlled_output(b"head\n", b"tail\n", 1_000_000, (500, 900_000), ())
    assert shown == (
        "[output: 1000000 bytes; 5 from its head and 5 from its tail follow]\n"
        "head\n\n[999990 bytes left out, 900000 of them were not kept]\ntail\n"
    )


def test_a_character_cut_in_two_is_left_out() -> None:
    text = "\u65e5".encode()
    shown = controlled_output(b"a" + text[:2], text[1:] + b"z", 100, None, ())
    assert "\ufffd" not in shown
    assert shown.endswith("\nz")


@pytest.mark.parametrize(
    "noise",
    [
        "\x1b[31;1m",
        "\x1b[?25l",
        "\x9b2J",
        "\x1b]0;title\x07",
        "\x1b]8;;http://x\x1b\\",
        "\x9d52;c;AAAA\x9c",
        "\x1bP+q\x1b\\",
        "\x1b_payload\x1b\\",
        "\x1b(B",
        "\x1bc",
        "\x1b7",
        "\x00\x08\x07\x85",
    ],
)
def test_control_sequences_are_removed_whole(noise: str) -> None:
    assert controlled_output(f"a{noise}b".encode(), b"", 0, None, ()).splitlines()[1] == "ab"


def test_an_unfinished_string_sequence_does_not_swallow_the_next_line() -> None:
    assert controlled_output(b"a\x1b]0;never ends\nb", b"", 0, None, ()).splitlines()[1:] == ["a", "b"]


def test_a_progress_bar_becomes_lines() -> None:
    assert controlled_output(b"10%\r20%\r\ndone", b"", 0, None, ()).splitlines()[1:] == ["10%", "20%", "done"]


def _forms() -> list[bytes]:
    text = SECRET.decode()
    return [
        SECRET,
        SECRET.hex().encode(),
        SECRET.hex().upper().encode(),
        urllib.parse.quote(SECRET).encode(),
        urllib.parse.quote(SECRET, safe="").encode(),
        urllib.parse.quote_plus(SECRET).encode(),
        json.dumps(text).encode(),
        json.dumps(text, ensure_ascii=False).encode(),
        SECRET[:6] + b"\x1b[0m" + SECRET[6:],
    ]


@pytest.mark.parametrize("form", _forms())
def test_a_secret_is_redacted_in_every_form(form: bytes) -> None:
    shown = controlled_output(b"key=" + form + b"\n", b"", 0, None, (SECRET,))
    assert "[redacted]" in shown
    assert "hunter2" not in shown
    assert form.decode() not in shown


@pytest.mark.parametrize("before", [b"", b"u", b"us", b"user:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_is_redacted_wherever_it_lies_in_base64(before: bytes, encode: object) -> None:
    assert callable(encode)
    letters = encode(before + SECRET + b" and more")
    shown = controlled_output(letters, b"", 0, None, (SECRET,)).splitlines()[1]
    assert "[redacted]" in shown
    assert len(shown.replace("[redacted]", "")) <= len(letters) - 4 * len(SECRET) // 3 + 4


@given(st.integers(min_value=1, max_value=len(SECRET) - 1))
def test_the_cut_leaves_no_piece_of_a_secret(at: int) -> None:
    shown = controlled_output(b"x " + SECRET[:at], SECRET[at:] + b" y", 10_000, None, (SECRET,))
    lines = shown.splitlines()
    assert lines[1] == "x "
    assert lines[-1] == " y"


def test_short_values_are_no_secrets() -> None:
    assert controlled_output(b"a true b", b"", 0, None, (b"true",)).endswith("a true b")


@pytest.mark.parametrize(
    "credential",
    [
        "AKIA" + "A1B2C3D4" * 2,
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2" * 9,
        "sk-" + "a1B2" * 12,
        "xoxb-" + "1234567890-abc",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIE that is cut",
        "MIIE\nthe/rest+of=\n-----END PRIVATE KEY-----",
    ],
)
def test_credentials_are_known_by_their_shape(credential: str) -> None:
    data = credential.encode()
    shown = controlled_output(data, b"", len(data), None, ()).partition("\n")[2]
    assert shown in ("[redacted]", "MIIE\nthe/rest+of=\n[redacted]")


@given(
    st.binary(max_size=300),
    st.binary(max_size=300),
    st.integers(min_value=0, max_value=1000),
    st.binary(max_size=20),
)
def test_any_output_can_be_controlled(head: bytes, tail: bytes, total: int, secret: bytes) -> None:
    shown = controlled_output(head, tail, total, None, (secret,))
    assert shown.startswith("[output: ")
    assert display_safe(shown, max_chars=len(shown), multiline=True) == shown
