"""A first flow for a repository: what is found in it, and the text that follows from it.

Owns the guesses of `fusion init`. It reads a few well-known files and writes nothing.
"""

import json
import re
import shutil
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path

from fusiond.domain.records import dataclass

MAX_FILE_BYTES = 1024 * 1024

_AGENTS = {
    "codex": ('codex exec "$(cat prompt.md)"', "OPENAI_API_KEY"),
    "claude": ('claude -p "$(cat prompt.md)"', "ANTHROPIC_API_KEY"),
    "opencode": ('opencode run "$(cat prompt.md)"', "OPENCODE_API_KEY"),
    "gemini": ('gemini -p "$(cat prompt.md)"', "GEMINI_API_KEY"),
    "qwen": ('qwen -p "$(cat prompt.md)"', "OPENAI_API_KEY"),
    "aider": ("aider --yes-always --message-file prompt.md", "OPENAI_API_KEY"),
    "goose": ("goose run -i prompt.md", "OPENAI_API_KEY"),
    "cursor-agent": ('cursor-agent -p "$(cat prompt.md)"', "CURSOR_API_KEY"),
}
"""Agents with a command line of their own: how one pass is started, and the variable with its key."""

_NPM_PLACEHOLDER = "no test specified"
MAX_TEST_FILES = 200
_PLAIN_TEST = re.compile(r"^(async )?def test_", re.MULTILINE)
_MAKE_TEST = re.compile(r"^(test|check)\s*:(?!=)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A command that prepares the tests' surroundings, and the files that decide when it must run again."""

    run: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found in a repository.

    Args:
        languages: by their manifests.
        test: the test command, None where none is known.
        network: the tests fetch dependencies when they are run.
        setup: what must be done before them.
        agents: names of agents on PATH.
    """

    languages: tuple[str, ...] = ()
    test: str | None = None
    network: bool = False
    setup: Setup | None = None
    agents: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """Return it for `--json`."""
        return asdict(self)


def look_at(root: Path, search_path: str, test: str | None = None) -> Findings:
    """Look at a repository.

    Args:
        root: its root directory.
        search_path: PATH, for tools and agents.
        test: the test command, where a person gave it.
    """
    agents = tuple(name for name in _AGENTS if shutil.which(name, path=search_path))
    looks = [look for manifests, look in _LOOKS if any((root / name).exists() for name in manifests)]
    if not looks and any(root.glob("*.py")):
        # Scripts without a manifest; beside another language's manifest they are only helpers of its.
        looks = [_python]
    known = [look(root, search_path) for look in looks]
    chosen = next((each for each in known if each.test), Findings())
    return Findings(
        languages=tuple(language for each in known for language in each.languages),
        test=test or chosen.test,
        network=chosen.network and test is None,
        setup=None if test else chosen.setup,
        agents=agents,
    )


def _python(root: Path, search_path: str) -> Findings:
    told = "".join(_text(root / name) for name in ("pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini"))
    conftest = (root / "conftest.py").exists() or (root / "tests/conftest.py").exists()
    pytest = "pytest" in told or conftest or _plain_tests(root)
    if (root / "uv.lock").exists() and shutil.which("uv", path=search_path):
        test = "uv run --frozen pytest -q" if pytest else "uv run --frozen python -m unittest"
        return Findings(
            languages=("Python",), test=test, setup=Setup(run="uv sync --frozen", key=("uv.lock",))
        )
    return Findings(languages=("Python",), test="python3 -m pytest -q" if pytest else _unittest(root))


def _plain_tests(root: Path) -> bool:
    """Say whether tests are functions that unittest does not see: it would run none and call that a success."""
    files = chain(root.glob("test_*.py"), root.glob("tests/**/test_*.py"))
    texts = [_text(path) for path in islice(files, MAX_TEST_FILES)]
    return any(_PLAIN_TEST.search(text) for text in texts) and not any("TestCase" in text for text in texts)


def _unittest(root: Path) -> str:
    """Return the command that finds the tests: a directory that is no package is not looked into by itself."""
    if (root / "tests").is_dir() and not (root / "tests" / "__init__.py").exists():
        return "python3 -m unittest discover -s tests"
    return "python3 -m unittest"


def _node(root: Path, _: str) -> Findings:
    package = _json_object(root / "package.json")
    scripts = package.get("scripts")
    script = scripts.get("test") if isinstance(scripts, dict) else None
    named = isinstance(script, str) and _NPM_PLACEHOLDER not in script
    depends = any(package.get(each) for each in ("dependencies", "devDependencies"))
    locked = depends and (root / "package-lock.json").exists()
    return Findings(
        languages=("Node",),
        test="npm test" if named else "node --test",
        setup=Setup(run="npm ci", key=("package.json", "package-lock.json")) if locked else None,
    )


def _go(root: Path, _: str) -> Findings:
    return Findings(languages=("Go",), test="go test ./...", network=(root / "go.sum").exists())


def _rust(root: Path, _: str) -> Findings:
    locked = "checksum = " in _text(root / "Cargo.lock")
    return Findings(languages=("Rust",), test="cargo test", network=locked)


def _make(root: Path, _: str) -> Findings:
    target = next((each for name in _MAKEFILES if (each := _MAKE_TEST.search(_text(root / name)))), None)
    return Findings(languages=("make",), test=f"make {target[1]}" if target else None)


_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_LOOKS = (
    (("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"), _python),
    (("package.json",), _node),
    (("go.mod",), _go),
    (("Cargo.toml",), _rust),
    (_MAKEFILES, _make),
)
"""Files that say what a repository is, and what to look at then; the first test command found is taken."""


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_FILE_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _json_object(path: Path) -> dict[str, object]:
    try:
        value = json.loads(_text(path))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


_HEAD = """\
# What Fusion runs in this repository. `fusion flow check` checks this file, `fusion run --mode plan` shows it
# with every default written out, and `fusion run` runs it: each node in a worktree of its own, made from the
# commit that is checked out. Your checkout is never touched.
flow: first
limits:                  # frozen when a run starts
  repair_reruns: 2       # a red gate goes back to the same command as feedback, this many times
  attempts: 1            # then from a fresh worktree, this many times in all
  wall_clock: 30m
nodes:
  check:
    # A shell command. It sees $FUSION_OUTPUTS for what it produces, $FUSION_INPUTS for what it is given and,
    # on a rerun, $FUSION_FEEDBACK with what was wrong.
    run: ls > "$FUSION_OUTPUTS/files.txt"
    # code: write        # freeze what it changes in the code as well; `fusion merge` brings it to your branch
"""
_OUTPUTS = """\
    outputs:             # what must be there, or the attempt does not succeed
      files: {path: files.txt, media_type: text/plain}
"""
_NO_GATES = """\
    # gates:             # what must pass; judged by exit code
    #   - {name: test, run: make test}
"""


def first_flow(found: Findings) -> str:
    """Return the text of a first flow; it reads without problems and its nodes can be run."""
    text = _HEAD
    if found.setup is not None:
        key = ", ".join(_quoted(each) for each in found.setup.key)
        text += f"    setup: {{run: {_quoted(found.setup.run)}, key: [{key}]}}   # once for each content\n"
    text += _gates(found) + _OUTPUTS
    if found.agents:
        text += _agent(found.agents[0], found.test or "make test")
    return text


def _quoted(text: str) -> str:
    """Return a text in YAML's double quotes, whose escapes are JSON's but for halves of characters."""
    return json.dumps(text, ensure_ascii=False)


def _gates(found: Findings) -> str:
    if found.test is None:
        return _NO_GATES
    network = ", network: true" if found.network else ""
    head = "    gates:               # what must pass, in this order; judged by exit code\n"
    return f"{head}      - {{name: test, run: {_quoted(found.test)}, timeout: 10m{network}}}\n"


def _agent(name: str, test: str) -> str:
    command, key = _AGENTS[name]
    return f"""
  # An agent with a command line of its own, here {name}, is a command like any other. It works behind walls:
  # no home directory, so no login of yours; only the variables that `env` names.
  # change:
  #   run: {command}
  #   code: write
  #   network: true
  #   env: [{key}]
  #   gates: [{_quoted(test)}]
"""
