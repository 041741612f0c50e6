"""What every test shares: a hermetic environment, Hypothesis profiles, the `needs_tool` marker.

Owns nothing about Fusion itself; fakes are in `tests/fakes`, waiting in `tests/waiting.py`.
"""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REQUIRE_TOOLCHAINS = "FUSION_REQUIRE_TOOLCHAINS"

GIT_CONFIG = """\
[user]
\tname = Test Author
\temail = author@example.invalid
[init]
\tdefaultBranch = main
[advice]
\tdetachedHead = false
"""

# No deadline and no complaint about slowness: how fast a busy machine is, is no property of the code.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("fixed" if os.environ.get("CI") else "search")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Apply `@pytest.mark.needs_tool("go")`: the one place where a test may be left out.

    Without the tool the test is reported as skipped, with the reason, unless
    FUSION_REQUIRE_TOOLCHAINS is set, as it is in CI: then it fails.
    """
    wanted = [str(tool) for mark in item.iter_markers("needs_tool") for tool in mark.args]
    lacking = [tool for tool in wanted if shutil.which(tool) is None]
    if not lacking:
        return
    reason = f"needs {', '.join(lacking)} on PATH"
    if os.environ.get(REQUIRE_TOOLCHAINS):
        pytest.fail(f"{reason}, and {REQUIRE_TOOLCHAINS} is set: install it", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session", autouse=True)
def hermetic_environment() -> Iterator[None]:
    """Keep what the person running the tests has configured away from them.

    HOME and the XDG directories are empty and their paths short (a Unix socket's
    path has room for about 100 bytes); git reads only the configuration above;
    the commands of this Python's environment come first on PATH.
    """
    # Whoever starts the tests in the background may have Ctrl-C ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="fu-") as place, pytest.MonkeyPatch.context() as patch:
        home = Path(place)
        for name in [*os.environ]:
            if name.startswith(("GIT_", "FUSION_", "XDG_")) and name != REQUIRE_TOOLCHAINS:
                patch.delenv(name)
        (home / "gitconfig").write_text(GIT_CONFIG)
        (home / "run").mkdir(mode=0o700)
        patch.setenv("HOME", place)
        patch.setenv("XDG_CONFIG_HOME", f"{place}/config")
        patch.setenv("XDG_STATE_HOME", f"{place}/state")
        patch.setenv("XDG_RUNTIME_DIR", f"{place}/run")
        patch.setenv("GIT_CONFIG_GLOBAL", f"{place}/gitconfig")
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("GIT_TERMINAL_PROMPT", "0")
        patch.setenv("LC_ALL", "C.UTF-8")
        patch.setenv("TZ", "UTC")
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        yield
