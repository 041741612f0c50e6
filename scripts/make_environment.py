"""Makes `.venv` from the lock file, or leaves it alone when it is already right.

Owns the layout of `.venv` and its stamps. Uses the standard library only, and no
package index beyond what pip is configured to use. Finding the Python that runs
this is the business of `scripts/environment`.

Stamps are written last, so that whatever an interrupted run left is made anew.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

MARKER = "made-by-fusion-scripts"
LOCK_STAMP = "lock.stamp"
PROJECT_STAMP = "project.stamp"


def main(root: Path) -> int:
    """Bring `root/.venv` up to date; returns the exit status."""
    environment = root / ".venv"
    with_lock = os.open(root, os.O_RDONLY)
    try:
        _wait_for_others(with_lock)
        if environment.exists() and not (environment / MARKER).exists():
            _say(f"{environment} was not made by these scripts. Move it away and start this again.")
            return 1
        _refresh(root, environment)
    except subprocess.CalledProcessError as error:
        _say(
            f"setting up .venv failed: {' '.join(map(str, error.cmd[:5]))} … ended with status {error.returncode}."
        )
        _say("The package index must be reachable the first time; start this again when it is.")
        return 1
    finally:
        os.close(with_lock)
    return 0


def _refresh(root: Path, environment: Path) -> None:
    python = environment / "bin" / "python"
    lock = root / "requirements.lock"
    interpreter = f"{sys.version} {sys.base_prefix} {environment}"
    locked = _digest(interpreter.encode(), lock.read_bytes())
    if _stamp(environment / LOCK_STAMP) != locked:
        _say("making .venv from requirements.lock (about a minute, once)")
        shutil.rmtree(environment, ignore_errors=True)
        environment.mkdir()
        (environment / MARKER).touch()
        venv.create(environment, symlinks=True, with_pip=True)
        _pip(python, "--require-hashes", "--only-binary", ":all:", "-r", str(lock))
        (environment / LOCK_STAMP).write_text(locked)
    # The project is installed in place: its metadata and commands come from pyproject.toml alone.
    project = _digest(locked.encode(), (root / "pyproject.toml").read_bytes())
    if _stamp(environment / PROJECT_STAMP) != project:
        _pip(python, "--no-index", "--no-deps", "--no-build-isolation", "--editable", str(root))
        (environment / PROJECT_STAMP).write_text(project)


def _pip(python: Path, *arguments: str) -> None:
    quiet = ("-qq", "--no-input", "--disable-pip-version-check", "--no-user")
    subprocess.run([python, "-I", "-m", "pip", "install", *quiet, *arguments], check=True)


def _wait_for_others(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say("waiting for another script that sets up .venv")
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def _stamp(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _say(text: str) -> None:
    print(f"fusion: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
