"""From bytes to text with positions: size, encoding and characters of a flow file.

Knows lines and columns the way editors count them; knows nothing of YAML.
"""

import re
from bisect import bisect_right

from fusiond.codec.flowfile.problems import FlowProblem, FlowProblemCode
from fusiond.domain.records import dataclass

MAX_FILE_BYTES = 1 << 20
"""Largest flow file, and largest text file that a flow names."""

_LINE_END = re.compile(r"\r\n|\r|\n")
# What YAML 1.2 (chapter 5.1) calls not printable, and a byte order mark inside the text.
_CONTROL = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
# In YAML also what YAML 1.1 took for the end of a line and 1.2 does not: a comment could go on
# for one reader and end for the other.
_CONTROL_IN_YAML = re.compile(rf"{_CONTROL.pattern}|[\x85\u2028\u2029]")
_BOMS = {
    b"\xff\xfe": "a UTF-16 byte order mark",
    b"\xfe\xff": "a UTF-16 byte order mark",
}


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a file and where its lines start.

    Args:
        text: the decoded text, without a leading byte order mark.
        starts: character index of the start of each line.
    """

    text: str
    starts: tuple[int, ...]

    def place(self, index: int) -> tuple[int, int]:
        """Return line and column, both from 1, of the character at `index`."""
        line = bisect_right(self.starts, index) - 1
        return line + 1, index - self.starts[line] + 1


def source_of(text: str) -> Source:
    """Return `text` with its line starts."""
    return Source(text, (0, *(end.end() for end in _LINE_END.finditer(text))))


def decode(data: bytes, file: str | None = None) -> tuple[Source | None, list[FlowProblem]]:
    """Decode the bytes of a flow file, or of a prompt that it names.

    Args:
        data: the whole file. A leading UTF-8 byte order mark is dropped, as YAML 1.2 says.
        file: the file's name in problems, where it is not the flow file.

    Returns:
        The source, or None where the bytes are not readable text, and every problem.
    """
    if len(data) > MAX_FILE_BYTES:
        found = f"{len(data)} bytes"
        return None, [_at_start(file, FlowProblemCode.SIZE, found, f"at most {MAX_FILE_BYTES} bytes")]
    if data[:2] in _BOMS:
        return None, [_at_start(file, FlowProblemCode.ENCODING, _BOMS[data[:2]], "UTF-8 text")]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return None, [_undecodable(data, error, file)]
    source = source_of(text.removeprefix("\ufeff"))
    problems = _refused_characters(source, file)
    return (None if problems else source), problems


def _at_start(file: str | None, code: FlowProblemCode, found: str, expected: str) -> FlowProblem:
    return FlowProblem(code=code, file=file, line=1, column=1, path="", found=found, expected=expected)


def _undecodable(data: bytes, error: UnicodeDecodeError, file: str | None) -> FlowProblem:
    before = source_of(data[: error.start].decode("utf-8"))
    line, column = before.place(len(before.text))
    return FlowProblem(
        code=FlowProblemCode.ENCODING,
        file=file,
        line=line,
        column=column,
        path="",
        found=f"byte 0x{data[error.start]:02x}, which is not UTF-8",
        expected="UTF-8 text",
    )


def _refused_characters(source: Source, file: str | None) -> list[FlowProblem]:
    """Report the first refused character of each line."""
    refused = _CONTROL_IN_YAML if file is None else _CONTROL
    problems: dict[int, FlowProblem] = {}
    for match in refused.finditer(source.text):
        line, column = source.place(match.start())
        if line not in problems:
            problems[line] = FlowProblem(
                code=FlowProblemCode.CHARACTER,
                file=file,
                line=line,
                column=column,
                path="",
                found=f"the control character U+{ord(match[0]):04X}",
                expected="printable text",
            )
    return list(problems.values())
