"""The lock file pins everything that pyproject.toml asks for, by digest, from nowhere in particular."""

import re
import tomllib
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.arch.source_tree import ROOT

LOCK = (ROOT / "requirements.lock").read_text()
DIGEST = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def entries() -> Iterator[tuple[Requirement, list[str]]]:
    """Return each pinned requirement with its digests."""
    text = "\n".join(line for line in LOCK.splitlines() if not line.lstrip().startswith("#"))
    for logical_line in text.replace("\\\n", " ").splitlines():
        requirement = DIGEST.sub("", logical_line).strip()
        if requirement:
            yield Requirement(requirement), DIGEST.findall(logical_line)


def pins() -> dict[str, Version]:
    """Return the pinned version of each distribution, by canonical name."""
    found: dict[str, Version] = {}
    for requirement, _ in entries():
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", requirement
        found[canonicalize_name(requirement.name)] = Version(specifier.version)
    return found


def test_every_entry_has_digests_and_no_address() -> None:
    assert [str(requirement) for requirement, digests in entries() if not digests or requirement.url] == []
    assert re.findall(r"https?:|--(?:extra-)?index-url|--find-links|--trusted-host", LOCK) == []


def test_what_pyproject_asks_for_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    asked += project["build-system"]["requires"]
    pinned = pins()
    unmet = []
    for requirement in map(Requirement, asked):
        version = pinned.get(canonicalize_name(requirement.name))
        if version is None or version not in requirement.specifier:
            unmet.append(f"{requirement}: pinned is {version}")
    assert unmet == [], "make requirements.lock anew (CONTRIBUTING.md)"
