"""Checks what the report claims against the code that came with it, and writes a review."""

import ast
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, ".")

from billsplit.splitting import split

MOST_CENTS = 200
MOST_PEOPLE = 12


def main():
    report = json.loads(Path(os.environ["FUSION_INPUTS"], "report").read_text())
    findings = [*claims(report), *shares()]
    lines = [f"# Review of: {report['change']}", ""]
    lines += [f"- {finding}" for finding in findings] or ["Every claim and every share holds."]
    Path(os.environ["FUSION_OUTPUTS"], "review.md").write_text("\n".join(lines) + "\n")
    print("\n".join(findings) or "nothing to complain about")
    return 1 if findings else 0


def claims(report):
    tree = ast.parse(Path(report["file"]).read_text())
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    if report["function"] not in names:
        yield f"{report['file']} has no function {report['function']}"


def shares():
    for cents in range(MOST_CENTS):
        for people in range(1, MOST_PEOPLE + 1):
            found = split(cents, people)
            if sum(found) != cents or max(found) - min(found) > 1:
                yield f"split({cents}, {people}) is {found}"


if __name__ == "__main__":
    sys.exit(main())
