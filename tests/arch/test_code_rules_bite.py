"""Each rule of `code_rules.py` finds what it is for, and leaves its nearest honest neighbour alone."""

from collections.abc import Callable, Iterator

import pytest

from tests.arch import code_rules
from tests.arch.source_tree import Module, parse

Rule = Callable[[Module], Iterator[object]]

LONG_BODY = "\n".join(["    x = 1"] * 51)
RECORD = "@dataclass(frozen=True, slots=True)\nclass A: ..."
FULL_BODY = "\n".join(["    x = 1"] * 49)
NINE_METHODS = "\n".join(f"    def m{n}(self): ..." for n in range(9))
EIGHT_METHODS = "\n".join(f"    def m{n}(self): ..." for n in range(8))


def foreign(module: Module) -> Iterator[str]:
    """Allow json and one package."""
    return code_rules.imports_beyond(module, "json", "fusiond.sandbox.inside")


@pytest.mark.parametrize(
    "rule,bad",
    [
        (code_rules.async_code, "async def f(): ..."),
        (code_rules.clock_reads, "t = datetime.now(UTC)"),
        (code_rules.clock_reads, "t = datetime.datetime.utcnow()"),
        (code_rules.concrete_paths, "from pathlib import Path"),
        (code_rules.concrete_paths, "import pathlib"),
        (code_rules.open_records, "@dataclass\nclass A: ..."),
        (code_rules.open_records, "@dataclasses.dataclass(frozen=True)\nclass A: ..."),
        (code_rules.open_records, "@dataclass(frozen=True, slots=False)\nclass A: ..."),
        (code_rules.slow_records, f"from dataclasses import dataclass\n{RECORD}"),
        (code_rules.oversized, "x = 1\n" * 601),
        (code_rules.oversized, f"def f():\n{LONG_BODY}"),
        (code_rules.oversized, f"class A:\n  async def f(self):\n{LONG_BODY}"),
        (code_rules.vague_names, "class RunManager: ..."),
        (code_rules.undocumented_module, "x = 1"),
        (code_rules.undocumented_definitions, "def f(): ..."),
        (code_rules.undocumented_definitions, "class A: ..."),
        (code_rules.undocumented_definitions, 'class P(Protocol):\n    "Doc."\n    def f(self): ...'),
        (code_rules.wide_ports, f"class P(Protocol):\n{NINE_METHODS}"),
        (code_rules.broad_handlers, "try: ...\nexcept: ..."),
        (code_rules.broad_handlers, "try: ...\nexcept Exception: log()"),
        (code_rules.broad_handlers, "try: ...\nexcept (ValueError, BaseException) as e: ..."),
        (code_rules.broad_handlers, "with contextlib.suppress(Exception): ..."),
        (code_rules.sleeps, "time.sleep(1)"),
        (code_rules.sleeps, "await asyncio.sleep(0.1)"),
        (code_rules.sleeps, "from time import sleep as nap\nnap(1)"),
        (code_rules.left_out_tests, "@pytest.mark.skip\ndef f(): ..."),
        (code_rules.left_out_tests, "@pytest.mark.skipif(x, reason='y')\ndef f(): ..."),
        (code_rules.left_out_tests, "pytest.skip('no')"),
        (code_rules.left_out_tests, "pytest.importorskip('x')"),
        (code_rules.patched_seams, "monkeypatch.setattr('fusiond.ledger.store.open', fake)"),
        (code_rules.patched_seams, "from unittest import mock"),
        (code_rules.patched_seams, "from unittest.mock import patch"),
        (foreign, "import orjson"),
        (foreign, "from fusiond.domain import ids"),
        (foreign, "from fusiond.sandbox.insider import x"),
        (foreign, "from . import ids"),
    ],
)
def test_rule_finds(rule: Rule, bad: str) -> None:
    assert list(rule(parse(bad, "fusiond/x.py")))


@pytest.mark.parametrize(
    "rule,good",
    [
        (code_rules.async_code, "def f(): ..."),
        (code_rules.clock_reads, "t = now\nnow()"),
        (code_rules.concrete_paths, "from pathlib import PurePosixPath"),
        (code_rules.open_records, "@dataclass(frozen=True, slots=True)\nclass A: ..."),
        (code_rules.slow_records, f"from fusiond.domain.records import dataclass\n{RECORD}"),
        (code_rules.slow_records, "from dataclasses import dataclass\n@dataclass(slots=True)\nclass A: ..."),
        (code_rules.oversized, f"def f():\n{FULL_BODY}"),
        (code_rules.oversized, f'def f():\n    """Doc.\n\n\n    """\n{FULL_BODY}'),
        (code_rules.vague_names, "class Managed: ..."),
        (code_rules.undocumented_module, '"""Doc."""'),
        (code_rules.undocumented_definitions, "def _f(): ...\nclass _A: ..."),
        (code_rules.undocumented_definitions, 'class A:\n    "Doc."\n    def f(self): ...'),
        (code_rules.wide_ports, f"class P(Protocol):\n{EIGHT_METHODS}"),
        (code_rules.broad_handlers, "try: ...\nexcept OSError: ..."),
        (code_rules.broad_handlers, "try: ...\nexcept BaseException:\n    undo()\n    raise"),
        (code_rules.broad_handlers, "with contextlib.suppress(FileNotFoundError): ..."),
        (code_rules.sleeps, "await asyncio.sleep(0)"),
        (code_rules.left_out_tests, "@pytest.mark.needs_tool('go')\ndef f(): ..."),
        (code_rules.patched_seams, "monkeypatch.setattr(os, 'fsync', failing)"),
        (foreign, "import json.decoder"),
        (foreign, "from fusiond.sandbox.inside.order import Task"),
    ],
)
def test_rule_lets_pass(rule: Rule, good: str) -> None:
    assert list(rule(parse(good, "fusiond/x.py"))) == []


@pytest.mark.parametrize("name", sorted(code_rules.FORBIDDEN_MODULES))
def test_vague_module_names_are_found(name: str) -> None:
    assert list(code_rules.vague_names(parse("", f"fusiond/{name}.py")))
    assert list(code_rules.vague_names(parse("", f"fusiond/{name}/x.py")))


def test_filled_init_is_found() -> None:
    assert list(code_rules.filled_init(parse("x = 1", "fusiond/wire/__init__.py")))
    assert list(code_rules.filled_init(parse("", "fusiond/wire/__init__.py"))) == []


def test_broad_handler_is_named_by_its_function() -> None:
    source = "class A:\n    def f(self):\n        try: ...\n        except Exception: ..."
    assert list(code_rules.broad_handlers(parse(source, "fusiond/x.py"))) == [("A.f", 4)]
