"""Finding the workspace and its daemon for a command."""

import os
from collections.abc import Mapping

from fusiond.client.autostart import connect_or_start
from fusiond.client.blocking import Connection, connect, new_key
from fusiond.client.discovery import Workspace, find_workspace
from fusiond.codec.packed import Plain
from fusiond.domain.version import PRODUCT_VERSION


def here() -> Workspace:
    """Return the workspace that the current directory is in."""
    return find_workspace(os.getcwd())


def opened(workspace: Workspace | None = None) -> Connection:
    """Return a connection to the workspace's daemon, which is started when none runs."""
    return connect_or_start(workspace or here(), os.environ, product=PRODUCT_VERSION)


def running(workspace: Workspace) -> Connection:
    """Return a connection to a daemon that runs already. UnreachableError when none does."""
    return connect(workspace, os.environ, product=PRODUCT_VERSION)


def ask(method: str, params: Mapping[str, object] | None = None) -> dict[str, Plain]:
    """Ask the daemon one thing."""
    with opened() as connection:
        return connection.call(method, params or {})


def act(method: str, params: Mapping[str, object]) -> dict[str, Plain]:
    """Have the daemon do one thing, once."""
    with opened() as connection:
        return connection.call(method, params, key=new_key())
