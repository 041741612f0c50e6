"""Flow files without a daemon: read, resolve and show. Used by `fusion flow` and plan mode."""

from pathlib import Path

from fusiond.cli.failures import OK, USAGE, say
from fusiond.cli.output import print_json, print_line
from fusiond.codec.flowfile.explain import explain
from fusiond.codec.flowfile.pin import check_files, pin
from fusiond.codec.flowfile.plan_hash import plan_hash
from fusiond.codec.flowfile.problems import FlowProblem
from fusiond.codec.flowfile.read import read_flow
from fusiond.codec.flowfile.render import problem_line
from fusiond.codec.records import unstructure
from fusiond.domain.errors import InvalidError, NotFoundError, RefusedError
from fusiond.domain.flow import NodeKind, ResolvedFlow
from fusiond.domain.plan import resolve
from fusiond.domain.records import dataclass

MAX_FLOW_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFlow:
    """A flow file as checked: the plan, or every problem."""

    name: str
    plan: ResolvedFlow | None
    problems: tuple[FlowProblem, ...]


def check_file(root: str | None, path: str) -> CheckedFlow:
    """Check a flow file and the files it names.

    Args:
        root: of the workspace, where named files are; the file's own directory when None.
        path: of the flow file.

    Raises:
        InvalidError: the file itself cannot be read.
    """
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_FLOW_BYTES + 1)
    except OSError as error:
        raise InvalidError(f"{path}: {error.strerror}", expected="a readable flow file") from error
    reading = read_flow(data)
    base = Path(root or Path(path).absolute().parent)
    if reading.flow is None:
        of_files = check_files(reading.files, reading.inputs, lambda named: _named(base, named))
        return CheckedFlow(name=path, plan=None, problems=(*reading.problems, *of_files))
    pinning = pin(reading.flow, reading.files, lambda named: _named(base, named))
    if pinning.flow is None:
        return CheckedFlow(name=path, plan=None, problems=pinning.problems)
    return CheckedFlow(name=path, plan=resolve(pinning.flow, reading.explained), problems=())


def _named(base: Path, named: str) -> bytes:
    target = (base / named).resolve()
    if not target.is_relative_to(base.resolve()):
        raise RefusedError(f"{named} leads out of the workspace")
    try:
        return target.read_bytes()
    except OSError as error:
        raise NotFoundError(f"{named}: {error.strerror}") from error


def problem_document(problem: FlowProblem) -> dict[str, object]:
    """Return a problem for `--json`."""
    return dict(unstructure(problem))


def print_problems(checked: CheckedFlow, *, as_json: bool) -> int:
    """Print what was found; the exit code says whether the flow is usable."""
    if as_json:
        document: dict[str, object] = {
            "file": checked.name,
            "ok": checked.plan is not None,
            "problems": [problem_document(each) for each in checked.problems],
        }
        if checked.plan is not None:
            document["plan_hash"] = plan_hash(checked.plan)
        print_json(document)
    else:
        for each in checked.problems:
            print_line(problem_line(each, checked.name))
        if checked.plan is not None:
            count = len(checked.plan.flow.nodes)
            nodes = f"{count} node{'' if count == 1 else 's'}"
            print_line(f"{checked.name}: ok, {nodes}, plan {plan_hash(checked.plan)[:12]}")
            _note_what_does_not_run(checked.plan)
    return OK if checked.plan is not None else USAGE


def _note_what_does_not_run(plan: ResolvedFlow) -> None:
    """Say beforehand which nodes `fusion run` refuses in this version."""
    for node in plan.flow.nodes:
        if node.kind is not NodeKind.RUN:
            say(f"note: node {node.id} is `{node.kind}:`, which this version does not run yet")


def print_plan(root: str, path: str, *, as_json: bool) -> int:
    """Print the resolved flow with every default written out; nothing runs and no run is made."""
    checked = check_file(root, path)
    if checked.plan is None:
        return print_problems(checked, as_json=as_json)
    if as_json:
        print_json({"plan_hash": plan_hash(checked.plan), "plan": unstructure(checked.plan)})
    else:
        print_line(f"# plan {plan_hash(checked.plan)}")
        print_line(explain(checked.plan).rstrip("\n"))
    return OK
