"""Launchers over real processes: behind bubblewrap's walls, and with the subreaper alone."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusiond.domain.launch import Isolation
from fusiond.sandbox.host import LauncherHost, this_host
from fusiond.sandbox.launcher import SandboxLauncher
from fusiond.sandbox.probe import open_launcher
from tests.integration.sandbox.launch_bench import LaunchBench


@pytest.fixture(scope="session")
def fake_home() -> Iterator[Path]:
    """A home directory with a secret, and the runtime directory with the daemon's sockets in it."""
    with tempfile.TemporaryDirectory(prefix="fu-home-") as place:
        home = Path(place).resolve()
        (home / "secret").write_text("not for agents")
        (home / "run").mkdir()
        yield home


@pytest.fixture(scope="session")
def host(fake_home: Path) -> LauncherHost:
    return this_host(fake_home, fake_home / "run")


@pytest.fixture(scope="session")
def walled_launcher(host: LauncherHost) -> SandboxLauncher:
    """The launcher with walls; a machine on which none can be put up cannot run these tests."""
    launcher, findings = asyncio.run(open_launcher(host))
    assert launcher.isolation is Isolation.BUBBLEWRAP, f"bubblewrap does not work here: {findings}"
    return launcher


@pytest.fixture(params=["bubblewrap", "subreaper"])
def launcher(request: pytest.FixtureRequest, host: LauncherHost) -> SandboxLauncher:
    if request.param == "subreaper":
        return SandboxLauncher(host, None)
    walled: SandboxLauncher = request.getfixturevalue("walled_launcher")
    return walled


@pytest.fixture
def bench(launcher: SandboxLauncher, tmp_path: Path) -> LaunchBench:
    """A bench for each launcher."""
    return LaunchBench(launcher, tmp_path)


@pytest.fixture
def walled(walled_launcher: SandboxLauncher, tmp_path: Path) -> LaunchBench:
    """A bench behind walls."""
    return LaunchBench(walled_launcher, tmp_path)
