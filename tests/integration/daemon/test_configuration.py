"""Two files, a closed schema, and errors that name file and key."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.daemon.config import FILE_BYTES, SECOND_US, Settings, apply_text, load_settings
from fusiond.domain.errors import InvalidError

WHOLE = """
tenant = "acme"
[daemon]
parallel = 8
drain_seconds = 5
[log]
level = "debug"
max_bytes = 65536
keep = 2
"""


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """An empty `.fusion`."""
    (tmp_path / ".fusion").mkdir()
    return tmp_path / ".fusion"


def load(marker: Path) -> Settings:
    """Load what is configured, with the user's file in `config/fusion`."""
    return load_settings(str(marker), {"XDG_CONFIG_HOME": f"{marker.parent}/config", "HOME": "/none"})


def write_users(marker: Path, text: str) -> Path:
    """Write the user's file."""
    path = marker.parent / "config" / "fusion" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_files_everything_has_its_default(marker: Path) -> None:
    assert load(marker) == Settings()


def test_every_key_is_read(marker: Path) -> None:
    write_users(marker, WHOLE)
    assert load(marker) == Settings(
        tenant=load(marker).tenant,
        parallel=8,
        drain_us=5 * SECOND_US,
        log_level="debug",
        log_max_bytes=65_536,
        log_keep=2,
    )
    assert load(marker).tenant == "acme"


def test_the_workspaces_file_wins_key_by_key(marker: Path) -> None:
    write_users(marker, WHOLE)
    (marker / "config.toml").write_text("[daemon]\nparallel = 1\n")
    settings = load(marker)
    assert (settings.parallel, settings.drain_us, settings.tenant) == (1, 5 * SECOND_US, "acme")


def test_home_is_where_the_users_file_is_by_default(marker: Path) -> None:
    home = marker.parent / "home"
    (home / ".config" / "fusion").mkdir(parents=True)
    (home / ".config" / "fusion" / "config.toml").write_text('tenant = "mine"')
    assert load_settings(str(marker), {"HOME": str(home)}).tenant == "mine"


@pytest.mark.parametrize(
    "text,key,said",
    [
        ("tennant = 'x'", "tennant", "one of tenant"),
        ("[daemons]", "daemons", "one of daemon, log"),
        ("[daemon]\nparalel = 3", "daemon.paralel", "parallel"),
        ('[""]\ntenant = "x"', "", "one of daemon, log"),
        ("tenant = 3", "tenant", "found 3"),
        ("tenant = 'Not Lower'", "tenant", "found 'Not Lower'"),
        ("[daemon]\nparallel = 0", "daemon.parallel", "from 1 to 256"),
        ("[daemon]\nparallel = true", "daemon.parallel", "found True"),
        ("[daemon]\nparallel = 1.5", "daemon.parallel", "found 1.5"),
        ("[daemon]\ndrain_seconds = -1", "daemon.drain_seconds", "from 0 to 3600"),
        ("[log]\nlevel = 'loud'", "log.level", "one of debug"),
        ("[log]\nlevel = ['info']", "log.level", "one of debug"),
        ("[log]\nmax_bytes = 1", "log.max_bytes", "found 1"),
        ("[log]\nkeep = 0", "log.keep", "found 0"),
        ("daemon = 3", "daemon", "one of tenant"),
        ("[tenant]", "tenant", "one of daemon, log"),
    ],
)
def test_wrong_setting_is_said_with_file_and_key(text: str, key: str, said: str) -> None:
    with pytest.raises(InvalidError) as caught:
        apply_text(Settings(), text, "/here/config.toml")
    assert caught.value.fields == {"file": "/here/config.toml", "key": key}
    assert caught.value.found.startswith("/here/config.toml")
    assert said in caught.value.sentence()


def test_what_is_no_toml_is_said_with_its_line() -> None:
    with pytest.raises(InvalidError, match=r"/here/config\.toml: .*line 2"):
        apply_text(Settings(), "tenant = 'x'\n= 3\n", "/here/config.toml")


@given(st.text(max_size=100))
def test_any_text_is_settings_or_a_clear_error(text: str) -> None:
    try:
        settings = apply_text(Settings(), text, "config.toml")
    except InvalidError:
        return
    assert settings == Settings()


@pytest.mark.parametrize(
    "data,said", [(b"tenant = '\xff'", "not UTF-8 at byte 10"), (b"#" * (FILE_BYTES + 1), "over 65536 bytes")]
)
def test_unreadable_file_is_said(marker: Path, data: bytes, said: str) -> None:
    (marker / "config.toml").write_bytes(data)
    with pytest.raises(InvalidError, match=said):
        load(marker)


@pytest.mark.parametrize("kind", ["fifo", "directory"])
def test_what_is_no_file_does_not_hold_the_daemon_up(marker: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(marker / "config.toml")
    else:
        (marker / "config.toml").mkdir()
    with pytest.raises(InvalidError, match=r"config\.toml: "):
        load(marker)
