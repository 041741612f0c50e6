"""What a node may do where the file does not say: by its kind alone."""

from fusiond.domain.flow import CodeAccess, NodeKind

AGENTS = frozenset({NodeKind.AGENT, NodeKind.ACP})
"""Kinds of nodes in which a model decides what happens."""

JUDGES = frozenset({NodeKind.PROTECTED, NodeKind.APPROVAL})
"""Kinds of nodes that have no attempt of their own."""


def presumed_code(kind: NodeKind | None, declared: CodeAccess | None) -> CodeAccess:
    """Return the access to code: as declared, else write for agents and read for commands."""
    if declared is not None:
        return declared
    if kind in AGENTS:
        return CodeAccess.WRITE
    return CodeAccess.READ if kind is NodeKind.RUN else CodeAccess.NONE
