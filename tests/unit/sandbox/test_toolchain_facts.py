"""What is read from the disk about a search path, and when it is read again."""

from pathlib import Path

import pytest

from fusiond.sandbox.mount_rules import Guarded
from fusiond.sandbox.toolchain_facts import ToolchainFinder, read_facts


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path.resolve() / "home"
    home.mkdir()
    return home


def make_program(path: Path) -> Path:
    """Plant an executable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def finder(home: Path) -> ToolchainFinder:
    return ToolchainFinder(home, Guarded(whole=(str(home),)))


def shown(home: Path, *search: Path, **variables: str) -> set[str]:
    """Return what a search path shows."""
    env = {"PATH": ":".join(map(str, search)), **variables}
    return {mount.target for mount in finder(home).find(env).mounts}


def test_virtual_environment_and_its_base(home: Path, tmp_path: Path) -> None:
    base, venv = tmp_path.resolve() / "python", tmp_path.resolve() / "venv"
    make_program(base / "bin" / "python3")
    (base / "lib").mkdir()
    (base / "include").mkdir()
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(base / "bin" / "python3")
    (venv / "pyvenv.cfg").write_text(f"Home = {base}/bin\nversion = 3.12.0\n")
    assert shown(home, venv / "bin") == {str(venv), str(base)}


def test_links_out_of_a_directory_are_followed(home: Path) -> None:
    tool = home / ".local" / "share" / "tools" / "x"
    make_program(tool / "bin" / "x")
    (tool / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (home / ".local" / "bin").mkdir()
    (home / ".local" / "bin" / "x").symlink_to(tool / "bin" / "x")
    (home / ".local" / "bin" / "dead").symlink_to(tool / "gone")
    (home / ".local" / "bin" / "shell").symlink_to("/bin/sh")
    assert shown(home, home / ".local" / "bin") == {str(home / ".local" / "bin"), str(tool)}


def test_secret_that_is_linked_to_is_not_shown(home: Path) -> None:
    make_program(home / ".config" / "tool" / "token")
    (home / "bin").mkdir()
    (home / "bin" / "token").symlink_to(home / ".config" / "tool" / "token")
    assert shown(home, home / "bin") == {str(home / "bin")}


def test_rustup_is_found_in_the_hosts_home(home: Path) -> None:
    make_program(home / ".cargo" / "bin" / "rustup")
    (home / ".rustup" / "toolchains").mkdir(parents=True)
    assert shown(home, home / ".cargo" / "bin") == {str(home / ".cargo" / "bin"), str(home / ".rustup")}


def test_what_is_not_there_or_relative_is_passed_over(home: Path, tmp_path: Path) -> None:
    assert shown(home, Path("bin"), Path("."), tmp_path / "nothing", Path("/usr/bin")) == set()
    assert shown(home, GOROOT="relative") == set()
    assert finder(home).find({}).mounts == ()


@pytest.mark.parametrize("text", [b"\xff\xfe", b"home =\n", b"home = relative\n", b"no equals", b""])
def test_odd_configurations_name_no_base(home: Path, tmp_path: Path, text: bytes) -> None:
    venv = tmp_path.resolve() / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_bytes(text)
    facts = read_facts([venv / "bin"], {}, home)
    assert facts.prefixes[str(venv)].base is None


def test_decision_is_kept_until_a_directory_changes(home: Path, tmp_path: Path) -> None:
    place = tmp_path.resolve() / "tools"
    place.mkdir()
    search, found = finder(home), []
    found.append(search.find({"PATH": str(place)}))
    found.append(search.find({"PATH": str(place), "OTHER": "1"}))
    (place / "x").symlink_to(make_program(tmp_path.resolve() / "apart" / "x"))
    found.append(search.find({"PATH": str(place)}))
    assert found[0] is found[1]
    assert {mount.target for mount in found[2].mounts} == {
        str(place),
        str(tmp_path.resolve() / "apart" / "x"),
    }
