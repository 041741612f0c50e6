"""The demo's files, and a git repository made of them.

Owns where the example is found (in a wheel beside this module, in a checkout below
`examples/`) and how it becomes a repository. The user's git configuration, templates and
hooks take no part: a demo must look the same everywhere and leave nothing behind.
"""

import os
import shutil
import subprocess
from pathlib import Path

from fusiond.domain.errors import InvalidError, NotFoundError, StorageError, UnsupportedError

EXAMPLE = "fix-bug"
_HERE = Path(__file__).parent
_PACKAGED = _HERE / "demo_files"
_CHECKOUT = _HERE.parents[1] / "examples" / EXAMPLE

_GIT_S = 60
_SETTINGS = {
    "user.name": "Fusion demo",
    "user.email": "demo@fusion.invalid",
    "init.defaultBranch": "main",
    "core.hooksPath": os.devnull,
    "commit.gpgSign": "false",
    "gc.auto": "0",
}


def demo_files() -> Path:
    """Return the directory of the demo's example. NotFoundError when this installation has none."""
    for place in (_PACKAGED, _CHECKOUT):
        if (place / "repo").is_dir():
            return place
    raise NotFoundError(
        "this installation has no demo files", expected=str(_PACKAGED), cure="install Fusion again"
    )


def make_repository(example: Path, target: Path) -> None:
    """Make a git repository with one commit from an example: its `repo/` and its flow files.

    Args:
        example: a directory as below `examples/`.
        target: a new or empty directory.

    Raises:
        InvalidError: the target is not empty, or no directory.
        UnsupportedError: git is not installed.
        StorageError: the files or the repository cannot be written.
    """
    _check_empty(target)
    try:
        shutil.copytree(example / "repo", target, dirs_exist_ok=True, ignore=_caches)
        for flow in sorted(example.glob("*.yaml")):
            shutil.copy(flow, target / flow.name)
    except (OSError, shutil.Error) as error:
        raise StorageError(f"cannot write {target}: {error}") from error
    for arguments in (
        ("init", "--quiet", "--template="),
        ("add", "--all"),
        ("commit", "--quiet", "--message", "First commit"),
    ):
        _git(target, *arguments)


def _caches(_: str, names: list[str]) -> set[str]:
    return {name for name in names if name == "__pycache__"}


def _check_empty(target: Path) -> None:
    try:
        occupied = target.exists() and any(target.iterdir())
    except OSError as error:
        raise InvalidError(f"{target}: {error.strerror}", expected="a new or empty directory") from error
    if occupied:
        raise InvalidError(
            f"{target} is not empty", expected="a new or empty directory", cure="name another, or none"
        )


def _git(target: Path, *arguments: str) -> None:
    settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
    try:
        ended = subprocess.run(
            ["git", *settings, *arguments],
            cwd=target,
            env=environment,
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_GIT_S,
        )
    except FileNotFoundError as error:
        raise UnsupportedError("git is not on PATH", cure="install git 2.38 or newer") from error
    if ended.returncode != 0:
        said = ended.stderr.decode(errors="replace").strip()
        raise StorageError(f"git {arguments[0]} in {target} failed: {said}")
