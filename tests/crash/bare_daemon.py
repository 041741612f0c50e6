"""The real daemon without walls: what a machine gets on which bubblewrap does not work."""

import sys
from dataclasses import replace

from fusiond.daemon import bootstrap
from fusiond.daemon.assembly import Assemble, Assembly, DaemonPlace
from fusiond.daemon.main import run
from fusiond.execution.services import Services
from fusiond.sandbox.launcher import SandboxLauncher


def _without_walls(services: Services) -> Services:
    launcher = services.launcher
    assert isinstance(launcher, SandboxLauncher)
    return replace(services, launcher=SandboxLauncher(launcher._host, None))


def bare() -> Assemble:
    """Return an `assemble` whose launcher puts up no walls."""

    async def assemble(place: DaemonPlace) -> Assembly:
        return await bootstrap.assemble(place, _without_walls)

    return assemble


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], bare))
