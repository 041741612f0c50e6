"""The real daemon with kill points between execution and its ports. Started by the harness."""

import os
import sys

from fusiond.daemon import bootstrap
from fusiond.daemon.assembly import Assemble, Assembly, DaemonPlace
from fusiond.daemon.main import run
from tests.crash.points import Killer, plan_of


def mortal() -> Assemble:
    """Return an `assemble` whose ports carry the points of the planned kill."""
    killer = Killer(plan_of(dict(os.environ)))

    async def assemble(place: DaemonPlace) -> Assembly:
        return await bootstrap.assemble(place, killer.wrap)

    return assemble


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], mortal))
