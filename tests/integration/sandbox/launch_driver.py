"""A stand-in for a daemon that can be killed: launches one command until somebody ends this process.

Started as `python launch_driver.py WALLS PLACE MARKER SCRIPT`; WALLS is a bubblewrap program or "-".
"""

import asyncio
import sys
from pathlib import Path

from fusiond.sandbox.host import Walls, this_host
from fusiond.sandbox.launcher import SandboxLauncher
from tests.integration.sandbox.launch_bench import LaunchBench


async def main(walls: str, place: Path, marker: str, script: str) -> None:
    """Launch the script."""
    host = this_host(place, place / "run")
    launcher = SandboxLauncher(host, None if walls == "-" else Walls(program=walls, nested_namespaces=True))
    bench = LaunchBench(launcher, place, marker)
    await bench.run(bench.spec(script))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]))
