"""What launching needs to know of this host: the interpreter, the home, what stays hidden, the walls.

Records and their reading; launches nothing.
"""

import os
import sys
from pathlib import Path

import fusiond
from fusiond.domain.records import dataclass
from fusiond.sandbox.mount_rules import Guarded


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherHost:
    """This host, as far as launching needs it. All paths are real paths.

    Args:
        python: interpreter that runs the launcher.
        python_prefix: its installation, shown inside the walls.
        packages: the directory that holds the package `fusiond`.
        home: the user's home directory.
        guarded: what no mount may show.
    """

    python: Path
    python_prefix: Path
    packages: Path
    home: Path
    guarded: Guarded


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """How bubblewrap works on this host.

    Args:
        program: its path.
        nested_namespaces: it cannot keep the command from making user namespaces of its own.
    """

    program: str
    nested_namespaces: bool = False


def this_host(home: Path, runtime_directory: Path) -> LauncherHost:
    """Return the facts of the running interpreter's host.

    Args:
        home: the user's home directory; shown in parts at most.
        runtime_directory: where the daemon's sockets are; never shown.
    """
    prefix = Path(os.path.realpath(sys.base_prefix))
    named = prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    real_home = os.path.realpath(home)
    return LauncherHost(
        python=named if named.exists() else Path(os.path.realpath(sys.executable)),
        python_prefix=prefix,
        packages=Path(os.path.realpath(fusiond.__path__[0])).parent,
        home=Path(real_home),
        guarded=Guarded(whole=(real_home,), entirely=(os.path.realpath(runtime_directory),)),
    )
