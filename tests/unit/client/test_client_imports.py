"""What the blocking client loads: nothing that would make every command slow."""

import subprocess
import sys

from tests.arch.source_tree import ROOT

PROGRAM = """
import sys
sys.path[:0] = {path!r}
before = set(sys.modules)
import {module}
print(*sorted({{name.split(".")[0] for name in set(sys.modules) - before}}))
"""

SLOW = frozenset(
    [
        "asyncio",
        "attr",
        "attrs",
        "cattrs",
        "dataclasses",
        "hashlib",
        "inspect",
        "json",
        "logging",
        "orjson",
        "pathlib",
        "re",
        "subprocess",
        "threading",
        "typing",
        "typing_extensions",
    ]
)


def loaded_with(module: str) -> set[str]:
    """Return the top-level modules that importing `module` loads in a fresh process."""
    program = PROGRAM.format(path=sys.path, module=module)
    # -S: what an environment's .pth files load is no doing of ours.
    command = [sys.executable, "-S", "-c", program]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(outcome.stdout.split())


def test_blocking_client_loads_nothing_slow() -> None:
    assert loaded_with("fusiond.client.following") & SLOW == set()


def test_autostart_loads_nothing_slow() -> None:
    assert loaded_with("fusiond.client.autostart") & SLOW == set()
