"""Bytecode for inside the walls: made once, made again when the source moves, never in the way."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

from fusiond.sandbox import inside
from fusiond.sandbox.compiled import compile_inside


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package without bytecode, taken for the real one."""
    assert inside.__file__ is not None
    target = tmp_path / "inside"
    shutil.copytree(Path(inside.__file__).parent, target, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(inside, "__file__", str(target / "__init__.py"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return target


def bytecode(package: Path) -> dict[str, int]:
    """Return the modules that have bytecode, with its inode."""
    made = {
        source.name: Path(importlib.util.cache_from_source(str(source))) for source in package.glob("*.py")
    }
    return {name: path.stat().st_ino for name, path in made.items() if path.exists()}


def test_every_module_is_compiled_once(copy: Path) -> None:
    compile_inside()
    first = bytecode(copy)
    assert first.keys() == {each.name for each in copy.glob("*.py")}
    compile_inside()
    assert bytecode(copy) == first


def test_module_with_another_time_is_compiled_again(copy: Path) -> None:
    compile_inside()
    first = bytecode(copy)
    os.utime(copy / "order.py", (1, 1))
    compile_inside()
    assert {name for name, inode in bytecode(copy).items() if first[name] != inode} == {"order.py"}


def test_place_that_takes_no_bytecode_is_no_failure(copy: Path) -> None:
    (copy / "__pycache__").write_text("a file where the directory would be")
    compile_inside()
    assert bytecode(copy) == {}


def test_nothing_is_written_where_that_is_not_wanted(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    compile_inside()
    assert bytecode(copy) == {}
