"""Rules of names within one node: gates and outputs that would be confused with one another."""

from itertools import combinations

from fusiond.codec.flowfile.problems import FlowProblemCode, KeyPath
from fusiond.codec.flowfile.reading.report import Report
from fusiond.codec.flowfile.reading.tree import Mapping, quoted
from fusiond.codec.flowfile.sections.flow import FlowDraft
from fusiond.codec.flowfile.sections.nodes import NodeDraft
from fusiond.domain.artifacts import CHANGES
from fusiond.domain.flow import OutputSpec
from fusiond.domain.paths import collision_key, glob_matches


def check_names(draft: FlowDraft, report: Report) -> None:
    """Report gates of one name, reserved outputs, and outputs that share a file."""
    for node in draft.nodes:
        _check_gates(node, report)
        _check_reserved(node, report)
        for one, other in combinations(node.outputs, 2):
            _check_pair(node, one, other, report)


def _check_gates(node: NodeDraft, report: Report) -> None:
    seen: set[str] = set()
    for number, spot in enumerate(report.items(("nodes", node.id, "gates")), start=1):
        named = report.spot((*spot.path, "name"))
        if named is None and isinstance(spot.node, Mapping):
            continue
        name = named.text if named else f"gate-{number}"
        if name in seen:
            path = named.path if named else spot.path
            found, expected = f"the gate {quoted(name)} again", "gates with different names"
            report.at(path, FlowProblemCode.DUPLICATE, found, expected)
        seen.add(name)


def _check_reserved(node: NodeDraft, report: Report) -> None:
    path: KeyPath = ("nodes", node.id, "outputs", CHANGES)
    if place := report.spot(path):
        expected = "another name: changes is the patch of every attempt that writes code"
        report.add(FlowProblemCode.RESERVED, place.key, path, quoted(CHANGES), expected)


def _check_pair(node: NodeDraft, one: OutputSpec, other: OutputSpec, report: Report) -> None:
    clash = _clash(one, other)
    if clash is None:
        return
    key = "path" if other.path is not None else "collect"
    path = ("nodes", node.id, "outputs", other.name, key)
    found = f"{quoted(other.path or other.collect or '')}, which {clash} of {one.name}"
    report.at(path, FlowProblemCode.COLLISION, found, "outputs that share no file")


def _clash(one: OutputSpec, other: OutputSpec) -> str | None:
    """Say how two outputs of a node could claim one file or one name, or return None."""
    if one.path is not None and other.path is not None:
        mine, others = _parts(one.path), _parts(other.path)
        if mine == others:
            return f"is the path {quoted(one.path)}"
        shorter = min(len(mine), len(others))
        return f"cannot be beside the path {quoted(one.path)}" if mine[:shorter] == others[:shorter] else None
    if one.collect is not None and other.collect is not None:
        return "is the glob" if _parts(one.collect) == _parts(other.collect) else None
    path, glob = one.path or other.path, one.collect or other.collect
    if path is None or glob is None:
        return None
    folded_path, folded_glob = collision_key(path), collision_key(glob)
    if glob_matches(folded_glob, folded_path):
        return "names what is the file" if other.collect is None else "matches the file"
    parts = _parts(path)
    return "needs a directory that is the file" if _literal(glob)[: len(parts)] == parts else None


def _parts(path: str) -> list[str]:
    return collision_key(path).split("/")


def _literal(glob: str) -> list[str]:
    """Return the leading directories of a glob that hold no wildcard."""
    parts = _parts(glob)[:-1]
    wild = [index for index, part in enumerate(parts) if "*" in part or "?" in part]
    return parts[: wild[0]] if wild else parts
