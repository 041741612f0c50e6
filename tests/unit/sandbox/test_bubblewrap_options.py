"""What bubblewrap is told: everything shut, and then only what is named."""

from pathlib import Path

import pytest

from fusiond.domain.launch import Mount
from fusiond.sandbox.bubblewrap import Enclosure, HostTree, identity_files, options, survey_host

TREE = HostTree(
    trees=("/usr",),
    links=(("/bin", "usr/bin"),),
    etc=(("ld.so.cache", "/etc/ld.so.cache"), ("localtime", "/usr/share/zoneinfo/UTC")),
    etc_network=(("resolv.conf", "/run/resolve/stub.conf"),),
)


def told(
    *,
    network: bool = False,
    nested: bool = False,
    mounts: tuple[Mount, ...] = (),
    toolchains: tuple[Mount, ...] = (),
) -> list[str]:
    """Return the options of walls, as one line each."""
    walls = Enclosure(
        host=TREE,
        toolchains=toolchains,
        mounts=mounts,
        files=((9, "/etc/passwd"),),
        network=network,
        marker="run.node.1",
        nested_namespaces=nested,
        info=7,
        gate=8,
    )
    lines: list[str] = []
    for option in options(walls):
        if option.startswith("--"):
            lines.append(option)
        else:
            lines[-1] += f" {option}"
    return lines


def test_everything_is_shut_first() -> None:
    lines = told()
    assert lines[:3] == ["--unshare-all", "--unshare-user", "--die-with-parent"]
    for each in ("--new-session", "--cap-drop ALL", "--clearenv", "--disable-userns"):
        assert each in lines


def test_network_is_shared_only_when_asked_for() -> None:
    assert "--share-net" not in told()
    assert "--share-net" in told(network=True)


def test_names_are_looked_up_only_with_a_network() -> None:
    line = "--ro-bind /run/resolve/stub.conf /etc/resolv.conf"
    assert line not in told()
    assert line in told(network=True)


def test_nested_namespaces_are_let_where_they_cannot_be_kept_out() -> None:
    assert "--disable-userns" not in told(nested=True)


def test_only_the_marker_is_in_the_environment() -> None:
    assert [line for line in told() if "env" in line] == ["--clearenv", "--setenv FUSION_ATTEMPT run.node.1"]


def test_links_of_the_host_stay_links() -> None:
    lines = told()
    assert "--symlink usr/bin /bin" in lines
    assert "--symlink /usr/share/zoneinfo/UTC /etc/localtime" in lines
    assert "--ro-bind /etc/ld.so.cache /etc/ld.so.cache" in lines


def test_nothing_is_writable_that_was_not_asked_for() -> None:
    lines = told(
        mounts=(Mount(source="/w", target="/attempt"),), toolchains=(Mount(source="/o", target="/o"),)
    )
    assert [line for line in lines if line.startswith(("--bind", "--dev-bind"))] == []
    assert "--ro-bind /w /attempt" in lines
    assert "--ro-bind-try /o /o" in lines
    assert lines.index("--remount-ro /") > lines.index("--ro-bind /w /attempt")
    assert lines.index("--remount-ro /proc") == lines.index("--proc /proc") + 1


def test_worktree_comes_last_and_parents_before_children() -> None:
    asked = (
        Mount(source="/c", target="/attempt/.venv"),
        Mount(source="/w", target="/attempt", writable=True),
        Mount(source="/i", target="/fusion/inputs"),
    )
    shown = [line for line in told(mounts=asked) if line.split()[-1].startswith(("/attempt", "/fusion"))]
    assert shown == ["--ro-bind /i /fusion/inputs", "--bind /w /attempt", "--ro-bind /c /attempt/.venv"]


def test_made_files_can_be_read_by_everyone_inside() -> None:
    lines = told()
    assert lines[lines.index("--ro-bind-data 9 /etc/passwd") - 1] == "--perms 0444"


@pytest.mark.parametrize("uid,lines", [(0, 2), (1000, 3)])
def test_accounts_are_neutral(uid: int, lines: int) -> None:
    files = dict(identity_files(uid=uid, gid=uid, home="/attempt/home", network=False))
    accounts = files["/etc/passwd"].decode().splitlines()
    assert len(accounts) == lines
    assert f"fusion:x:{uid}:{uid}::/attempt/home:/bin/sh" in accounts
    assert {account.count(":") for account in accounts} == {6}


@pytest.mark.parametrize("home", ["relative", "/a:0:0::/:/bin/sh", "/a\nroot::0:0::/:/bin/sh", ""])
def test_home_cannot_forge_an_account(home: str) -> None:
    accounts = dict(identity_files(uid=1, gid=1, home=home, network=False))["/etc/passwd"].decode()
    assert "fusion:x:1:1::/:/bin/sh\n" in accounts
    assert accounts.count("\n") == 3


def test_hosts_are_made_only_without_a_network() -> None:
    assert "/etc/hosts" in dict(identity_files(uid=1, gid=1, home="/", network=False))
    assert "/etc/hosts" not in dict(identity_files(uid=1, gid=1, home="/", network=True))


def test_survey_takes_the_merged_and_the_split_layout(tmp_path: Path) -> None:
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "lib").mkdir()
    tree = survey_host(tmp_path)
    assert tree.trees == ("/usr", "/lib")
    assert tree.links == (("/bin", "usr/bin"),)


def test_survey_shows_no_secret_of_etc(tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    (etc / "ssl" / "private").mkdir(parents=True)
    (etc / "ssl" / "certs").mkdir()
    (etc / "java-21").mkdir()
    for name in ("shadow", "passwd", "gitconfig", "npmrc", "pip.conf", "environment", "services", "hosts"):
        (etc / name).write_text("")
    tree = survey_host(tmp_path)
    assert {name for name, _real in tree.etc} == {"services", "java-21"}
    assert {name for name, _real in tree.etc_network} == {"hosts", "ssl/certs"}
