"""What a process of an attempt sees: variables, mounts, paths. Pure.

Nothing is inherited but what is listed here and what the flow's `env:` names
(`flow.md`, Attempt environment).
"""

from collections.abc import Callable, Sequence

from fusiond.domain.flow import CodeAccess, Node
from fusiond.domain.ids import AttemptId
from fusiond.domain.launch import Mount
from fusiond.domain.records import dataclass
from fusiond.ports.workspace import AttemptPlaces

TREE = "/attempt"
OUTPUTS = "/fusion/outputs"
REPORT = "/fusion/report"
SESSION = "/fusion/session"
INPUTS = "/fusion/inputs"
FEEDBACK = "/fusion/feedback"
HOME = "/fusion/home"
PROGRAM = "/fusion/bin"

RUN_INPUTS = ".run"
"""Directory below the inputs with the flow's own inputs; no node input can be named so."""

CONTRACT_FILE = "contract.json"
"""The node's output declarations, beside the feedback, for `fusion-attempt check`."""

HINTS_FILE = "hints.md"
"""What manifest and summary still lack, kept up to date while the attempt runs."""

_FIXED = (
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    # Byte-code caches are not results; where a tree does not ignore them they would
    # change the revision between two gates.
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONUNBUFFERED", "1"),
)

Inside = Callable[[str, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Variables and mounts of one process."""

    env: tuple[tuple[str, str], ...]
    mounts: tuple[Mount, ...]
    cwd: str


def mounts_of(places: AttemptPlaces, node: Node, program: str, extra: Sequence[Mount]) -> tuple[Mount, ...]:
    """Return what is visible beside the toolchains.

    Args:
        places: the attempt's host directories.
        node: its node; code it may not see is not mounted.
        program: host directory with `fusion-attempt`.
        extra: base history and setup results.
    """
    tree = () if node.code is CodeAccess.NONE else (Mount(source=places.tree, target=TREE, writable=True),)
    return (
        *tree,
        Mount(source=places.outputs, target=OUTPUTS, writable=True),
        Mount(source=places.report, target=REPORT, writable=True),
        Mount(source=places.session, target=SESSION, writable=True),
        Mount(source=places.home, target=HOME, writable=True),
        Mount(source=places.inputs, target=INPUTS),
        Mount(source=places.feedback, target=FEEDBACK),
        Mount(source=program, target=PROGRAM),
        *extra,
    )


def surroundings(
    *,
    attempt: AttemptId,
    node: Node,
    places: AttemptPlaces,
    mounts: tuple[Mount, ...],
    inside: Inside,
    search_path: str,
    passed: Sequence[tuple[str, str]],
    feedback: str | None,
    program: str,
) -> Surroundings:
    """Return everything a process of the attempt sees.

    Args:
        attempt: whose process.
        node: its node.
        places: the attempt's host directories.
        mounts: from `mounts_of`.
        inside: from a host path and its target to the path as seen (`Launcher.inside`).
        search_path: PATH of whoever submitted the run.
        passed: variables that the flow's `env:` names, with their values.
        feedback: file name below the feedback directory, on a rerun.
        program: host directory with `fusion-attempt`.
    """
    report = inside(places.report, REPORT)
    inputs = inside(places.inputs, INPUTS)
    told = inside(places.feedback, FEEDBACK)
    bin_path = inside(program, PROGRAM)
    env = dict(_FIXED)
    env.update(
        {
            "PATH": f"{bin_path}:{search_path}" if search_path else bin_path,
            "HOME": inside(places.home, HOME),
            "FUSION_RUN": attempt.stage.run,
            "FUSION_NODE": attempt.stage.node,
            "FUSION_INPUTS": inputs,
            "FUSION_RUN_INPUTS": f"{inputs}/{RUN_INPUTS}",
            "FUSION_OUTPUTS": inside(places.outputs, OUTPUTS),
            "FUSION_MANIFEST": f"{report}/artifacts.json",
            "FUSION_RESULT": f"{report}/result.md",
            "FUSION_SESSION": inside(places.session, SESSION),
            "FUSION_CONTRACT": f"{told}/{CONTRACT_FILE}",
            "FUSION_HINTS": f"{told}/{HINTS_FILE}",
        }
    )
    if feedback is not None:
        env["FUSION_FEEDBACK"] = f"{told}/{feedback}"
    for name, value in passed:
        env.setdefault(name, value)
    tree = inside(places.session, SESSION) if node.code is CodeAccess.NONE else inside(places.tree, TREE)
    return Surroundings(env=tuple(sorted(env.items())), mounts=mounts, cwd=tree)
