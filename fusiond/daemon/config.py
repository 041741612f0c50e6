"""Configuration of the daemon: two TOML files, a closed schema, errors with file and key.

`~/.config/fusion/config.toml` is the user's, `.fusion/config.toml` the
workspace's, which wins. The workspace's file may have come with somebody
else's repository, so no key here may loosen isolation, choose a command or
name a path; such settings have no place in it.
"""

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from fusiond.domain.errors import InvalidError
from fusiond.domain.ids import TenantId, is_tenant
from fusiond.domain.records import dataclass

FILE_BYTES = 64 * 1024
SECOND_US = 1_000_000

_LEVELS = ("debug", "info", "warning", "error")

V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings, each with its default.

    Args:
        tenant: of whoever names none.
        parallel: attempts at once in this daemon, over all runs.
        drain_us: how long a stopping daemon waits for the next recorded points.
        log_level: the least level that is logged.
        log_max_bytes: size at which a log file is set aside.
        log_keep: how many of those are kept.
    """

    tenant: TenantId = TenantId("local")
    parallel: int = 16
    drain_us: int = 30 * SECOND_US
    log_level: str = "info"
    log_max_bytes: int = 8 * 1024 * 1024
    log_keep: int = 4


Reader = Callable[[Settings, object], Settings]


def _tenant(settings: Settings, value: object) -> Settings:
    if not isinstance(value, str) or not is_tenant(value):
        raise InvalidError(f"found {value!r}", expected="a name such as local")
    return replace(settings, tenant=TenantId(value))


def _integer(value: object, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise InvalidError(f"found {value!r}", expected=f"an integer from {least} to {most}")
    return value


def _parallel(settings: Settings, value: object) -> Settings:
    return replace(settings, parallel=_integer(value, 1, 256))


def _drain(settings: Settings, value: object) -> Settings:
    return replace(settings, drain_us=_integer(value, 0, 3_600) * SECOND_US)


def _level(settings: Settings, value: object) -> Settings:
    if value not in _LEVELS:
        raise InvalidError(f"found {value!r}", expected=f"one of {', '.join(_LEVELS)}")
    return replace(settings, log_level=str(value))


def _max_bytes(settings: Settings, value: object) -> Settings:
    return replace(settings, log_max_bytes=_integer(value, 64 * 1024, 1024**3))


def _keep(settings: Settings, value: object) -> Settings:
    return replace(settings, log_keep=_integer(value, 1, 100))


_SCHEMA: Mapping[str, Mapping[str, Reader]] = {
    "": {"tenant": _tenant},
    "daemon": {"parallel": _parallel, "drain_seconds": _drain},
    "log": {"level": _level, "max_bytes": _max_bytes, "keep": _keep},
}


def load_settings(workspace_marker: str, environ: Mapping[str, str]) -> Settings:
    """Return the settings of a workspace's daemon.

    Args:
        workspace_marker: path of `.fusion`.
        environ: for XDG_CONFIG_HOME and HOME.

    Raises:
        InvalidError: an unknown key or a wrong value; names file and key.
    """
    home = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
    settings = Settings()
    for path in (f"{home}/fusion/config.toml", f"{workspace_marker}/config.toml"):
        text = _read(path)
        if text is not None:
            settings = apply_text(settings, text, path)
    return settings


def apply_text(settings: Settings, text: str, path: str) -> Settings:
    """Return `settings` as changed by one file's text. InvalidError names `path` and the key."""
    # Loaded late: most workspaces have no file to read.
    import tomllib

    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidError(f"{path}: {error}", expected="TOML") from error
    for name, value in tables.items():
        if isinstance(value, dict):
            settings = _apply_table(settings, name, value, path)
        else:
            settings = _apply(settings, "", name, value, path)
    return settings


def _apply_table(settings: Settings, table: str, values: Mapping[str, object], path: str) -> Settings:
    if table == "" or table not in _SCHEMA:
        raise _unknown(path, table, [each for each in _SCHEMA if each])
    for name, value in values.items():
        settings = _apply(settings, table, name, value, path)
    return settings


def _apply(settings: Settings, table: str, name: str, value: object, path: str) -> Settings:
    key = f"{table}.{name}" if table else name
    reader = _SCHEMA[table].get(name)
    if reader is None:
        raise _unknown(path, key, list(_SCHEMA[table]))
    try:
        return reader(settings, value)
    except InvalidError as error:
        raise InvalidError(
            f"{path}: {key}: {error.found}", expected=error.expected, fields={"file": path, "key": key}
        ) from error


def _unknown(path: str, key: str, known: list[str]) -> InvalidError:
    return InvalidError(
        f"{path}: unknown key {key!r}",
        expected=f"one of {', '.join(known)}",
        cure="remove it",
        fields={"file": path, "key": key},
    )


def _read(path: str) -> str | None:
    # Non-blocking, so that a FIFO in the file's place cannot hold the daemon up.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidError(f"{path}: cannot be read: {error.strerror}", expected="a readable file") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidError(f"{path}: not a regular file", expected="a TOML file")
        data = os.read(descriptor, FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > FILE_BYTES:
        raise InvalidError(f"{path}: over {FILE_BYTES} bytes", expected="a small TOML file")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidError(f"{path}: not UTF-8 at byte {error.start}", expected="UTF-8") from error
