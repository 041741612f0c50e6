"""Bytecode of what runs inside the walls, made before the first launch.

Inside, the package is mounted read-only, so a launch that finds no bytecode would
compile the same modules again each time, which doubles its start.
"""

import importlib.util
import logging
import py_compile
import struct
import sys
from pathlib import Path

from fusiond.sandbox import inside

log = logging.getLogger(__name__)

_HEADER = struct.Struct("<4sLLL")
_WORD = 0xFFFFFFFF


def compile_inside() -> None:
    """Compile the launcher's modules where that is not done; a directory nobody may write is left as it is."""
    if sys.dont_write_bytecode or inside.__file__ is None:
        return
    for source in sorted(Path(inside.__file__).parent.glob("*.py")):
        try:
            if not _fresh(source):
                py_compile.compile(str(source), doraise=True)
        except OSError as error:
            log.info("launches compile their launcher each time: %s", error)
            return


def _fresh(source: Path) -> bool:
    """Say whether the import system would take the bytecode (PEP 552: magic, flags, time, size)."""
    try:
        with open(importlib.util.cache_from_source(str(source)), "rb") as stream:
            header = stream.read(_HEADER.size)
    except FileNotFoundError:
        return False
    state = source.stat()
    wanted = _HEADER.pack(importlib.util.MAGIC_NUMBER, 0, int(state.st_mtime) & _WORD, state.st_size & _WORD)
    return header == wanted
