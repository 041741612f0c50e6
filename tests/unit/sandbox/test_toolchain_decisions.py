"""What a search path shows: enough to work, never a home, never credentials."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.sandbox.mount_rules import Guarded, exposes
from fusiond.sandbox.toolchains import PathEntry, Prefix, Toolchains, ToolFacts, decide_toolchains, inside

HOME = "/users/me"
GUARDED = Guarded(whole=(HOME,), entirely=("/run/user/1/fusion",))


def entry(named: str, *, real: str = "", targets: tuple[str, ...] = (), programs: str = "") -> PathEntry:
    """Return one directory of a search path."""
    path = real or named
    return PathEntry(
        named=named,
        real=path,
        parent_real=path.rpartition("/")[0],
        programs=frozenset(programs.split()),
        targets=targets,
    )


def decide(
    *entries: PathEntry, prefixes: Mapping[str, str] | None = None, rustup: str = "", goroot: str = ""
) -> Toolchains:
    """Decide over entries and the names in their prefixes."""
    tops = {path: Prefix(names=frozenset(names.split())) for path, names in (prefixes or {}).items()}
    facts = ToolFacts(entries=entries, prefixes=tops, home=HOME, rustup_home=rustup, goroot=goroot)
    return decide_toolchains(facts, GUARDED)


def shown(found: Toolchains) -> dict[str, str]:
    """Return targets and their sources."""
    assert not any(mount.writable for mount in found.mounts)
    return {mount.target: mount.source for mount in found.mounts}


@pytest.mark.parametrize("path", ["/usr/bin", "/usr/local/go/bin", "/bin", "/attempt/.venv/bin", "/fusion/x"])
def test_system_and_worktree_need_nothing(path: str) -> None:
    assert decide(entry(path)) == Toolchains()


@pytest.mark.parametrize(
    "prefix,names",
    [
        (f"{HOME}/.pyenv", "bin shims versions plugins .git"),
        (f"{HOME}/.nvm/versions/node/v20", "bin include lib share"),
        (f"{HOME}/sdk/go1.22", "VERSION bin pkg src"),
        (f"{HOME}/miniconda3", "bin conda-meta lib"),
        (f"{HOME}/project/.venv", "bin lib pyvenv.cfg"),
        (f"{HOME}/.sdkman/candidates/java/21", "bin lib release"),
        ("/opt/tool", "bin whatever"),
        ("/home/linuxbrew/.linuxbrew", "bin Cellar"),
    ],
)
def test_installations_are_shown_whole(prefix: str, names: str) -> None:
    assert shown(decide(entry(f"{prefix}/bin"), prefixes={prefix: names})) == {prefix: prefix}


def test_shims_bring_their_version_manager() -> None:
    found = decide(
        entry(f"{HOME}/.pyenv/shims"),
        entry(f"{HOME}/.pyenv/bin"),
        prefixes={f"{HOME}/.pyenv": "shims versions bin"},
    )
    assert shown(found) == {f"{HOME}/.pyenv": f"{HOME}/.pyenv"}


@pytest.mark.parametrize(
    "path,names",
    [
        (f"{HOME}/bin", "bin lib share include"),
        (f"{HOME}/.local/bin", "bin lib share"),
        (f"{HOME}/.cargo/bin", "bin registry credentials.toml"),
        (f"{HOME}/project/bin", "bin src Makefile"),
        (f"{HOME}/project/bin", "bin lib share .env"),
        (f"{HOME}/go/bin", "bin pkg"),
        ("/srv/thing/bin", "bin data"),
        ("/opt/bin", "bin"),
    ],
)
def test_other_directories_are_shown_alone(path: str, names: str) -> None:
    assert shown(decide(entry(path), prefixes={path.rpartition("/")[0]: names})) == {path: path}


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/users",
        HOME,
        f"{HOME}/.config/tool/bin",
        f"{HOME}/.ssh",
        f"{HOME}/.aws/bin",
        f"{HOME}/.local",
        f"{HOME}/.cargo",
        "/run/user/1/fusion",
        "/run/user/1/fusion/ws",
        "/proc/self",
        "/dev/shm",
        "/etc/tool/bin",
        "/tmp",
        "/run",
    ],
)
def test_refused_directories(path: str) -> None:
    found = decide(entry(path))
    assert shown(found) == {}
    assert found.refused


def test_rust_needs_its_toolchains_and_says_where() -> None:
    cargo = entry(f"{HOME}/.cargo/bin", programs="cargo rustc rustup")
    found = decide(cargo, rustup=f"{HOME}/.rustup")
    assert shown(found) == {path: path for path in (f"{HOME}/.cargo/bin", f"{HOME}/.rustup")}
    assert found.variables == (("RUSTUP_HOME", f"{HOME}/.rustup"),)
    assert decide(entry(f"{HOME}/.cargo/bin", programs="ripgrep"), rustup=f"{HOME}/.rustup").variables == ()


def test_linked_tools_bring_their_own_environment_and_its_interpreter() -> None:
    tool, python = f"{HOME}/.local/share/uv/tools/ruff", f"{HOME}/.local/share/uv/python/cpython-3.12"
    facts = ToolFacts(
        entries=(entry(f"{HOME}/.local/bin", targets=(f"{tool}/bin/ruff", "/usr/bin/git")),),
        prefixes={
            tool: Prefix(names=frozenset({"bin", "pyvenv.cfg"}), base=(f"{python}/bin", f"{python}/bin")),
            python: Prefix(names=frozenset({"bin", "include", "lib"})),
        },
        home=HOME,
    )
    assert shown(decide_toolchains(facts, GUARDED)) == {
        path: path for path in (f"{HOME}/.local/bin", tool, python)
    }


def test_linked_single_file_is_shown_alone() -> None:
    target = f"{HOME}/.local/share/agent/versions/1.2"
    assert shown(decide(entry(f"{HOME}/.local/bin", targets=(target,)))) == {
        path: path for path in (f"{HOME}/.local/bin", target)
    }


def test_linked_node_program_brings_its_modules() -> None:
    modules = f"{HOME}/.local/lib/node_modules"
    found = decide(entry(f"{HOME}/.local/bin", targets=(f"{modules}/tool/bin/tool.js",)))
    assert shown(found) == {path: path for path in (f"{HOME}/.local/bin", modules)}


def test_directory_known_by_another_name_is_shown_under_both() -> None:
    real, named = f"{HOME}/.local/share/fnm/v20/installation", "/run/user/1/fnm/123"
    found = decide(entry(f"{named}/bin", real=f"{real}/bin"), prefixes={real: "bin lib include"})
    assert shown(found) == {named: real, real: real}


def test_interpreter_known_by_another_name_is_shown_under_both() -> None:
    facts = ToolFacts(
        entries=(entry("/w/.venv/bin"),),
        prefixes={
            "/w/.venv": Prefix(
                names=frozenset({"pyvenv.cfg"}), base=("/pythons/3.12/bin", "/pythons/3.12.4/bin")
            ),
            "/pythons/3.12.4": Prefix(names=frozenset({"lib", "include"})),
        },
        home=HOME,
    )
    assert shown(decide_toolchains(facts, GUARDED)) == {
        "/w/.venv": "/w/.venv",
        "/pythons/3.12": "/pythons/3.12.4",
        "/pythons/3.12.4": "/pythons/3.12.4",
    }


def test_environments_that_stand_on_each_other_end() -> None:
    facts = ToolFacts(
        entries=(entry("/a/bin"),),
        prefixes={
            "/a": Prefix(names=frozenset({"pyvenv.cfg"}), base=("/b/bin", "/b/bin")),
            "/b": Prefix(names=frozenset({"pyvenv.cfg"}), base=("/a/bin", "/a/bin")),
        },
        home=HOME,
    )
    assert shown(decide_toolchains(facts, GUARDED)) == {"/a": "/a", "/b": "/b"}


def test_goroot_of_the_environment_is_shown() -> None:
    assert shown(decide(goroot=f"{HOME}/go-sdk")) == {f"{HOME}/go-sdk": f"{HOME}/go-sdk"}
    assert shown(decide(goroot=HOME)) == {}


def test_mount_inside_another_that_differs_is_left_out() -> None:
    found = decide(
        entry("/opt/tool/bin"),
        entry("/opt/tool/plug/bin", real="/elsewhere/bin"),
        prefixes={"/opt/tool": "bin"},
    )
    assert "/opt/tool/plug/bin" not in shown(found)
    assert "/opt/tool/plug/bin" in dict(found.refused)


PARTS = st.sampled_from(["users", "me", "bin", ".local", "share", ".cargo", ".config", "opt", "x", "lib"])
PATHS = st.lists(PARTS, min_size=1, max_size=5).map(lambda parts: "/" + "/".join(parts))
NAMES = st.frozensets(st.sampled_from(["lib", "include", "share", "pyvenv.cfg", "shims", "versions", ".env"]))


@given(
    entries=st.lists(st.tuples(PATHS, PATHS, st.lists(PATHS, max_size=2)), max_size=4),
    prefixes=st.dictionaries(PATHS, NAMES, max_size=8),
)
def test_no_search_path_shows_a_home_or_credentials(
    entries: list[tuple[str, str, list[str]]], prefixes: dict[str, frozenset[str]]
) -> None:
    home = "/users/me"
    facts = ToolFacts(
        entries=tuple(entry(named, real=real, targets=tuple(targets)) for named, real, targets in entries),
        prefixes={path: Prefix(names=names) for path, names in prefixes.items()},
        home=home,
    )
    found = decide_toolchains(facts, GUARDED)
    for mount in found.mounts:
        assert not exposes(mount.source, GUARDED)
        assert mount.source not in {f"{home}/.local", f"{home}/.cargo", f"{home}/.local/share"}
        assert not inside(mount.source, f"{home}/.config")
    targets = [mount.target for mount in found.mounts]
    assert not [(a, b) for a in targets for b in targets if a != b and inside(a, b)]
