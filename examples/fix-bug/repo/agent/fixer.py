"""A scripted stand-in for a coding agent, with an agent's faults and an agent's way of mending them.

It keeps what it tried in $FUSION_SESSION, writes manifest and summary by hand, and on a rerun does
what $FUSION_FEEDBACK asks for. Real agents are told the same things in the same places.
"""

import hashlib
import json
import os
from pathlib import Path

TARGET = Path("billsplit/splitting.py")
BODY = "    share"

IDEAS = (
    (
        "the first person pays what is left over",
        """\
    share, left = divmod(total_cents, people)
    return [share + left] + [share] * (people - 1)
""",
    ),
    (
        "the cents that are left over go to one person each",
        """\
    share, left = divmod(total_cents, people)
    return [share + 1] * left + [share] * (people - left)
""",
    ),
)


def main():
    session = Session(Path(os.environ["FUSION_SESSION"], "session.json"))
    feedback = read_feedback()
    if not session.tried or "Gate unit did not pass" in feedback:
        session.take_next_idea()
    print(f"pass {session.begin_pass()}: {session.idea}")
    for line in feedback.splitlines():
        print(f"  told: {line}")
    change_code(session.tried[-1])
    report = write_report(session)
    write_manifest(report, careful="artifacts" in feedback or "report.json" in feedback)
    write_summary(session.idea if "result.md" in feedback else "")


class Session:
    """What the agent remembers from one pass to the next."""

    def __init__(self, path):
        self._path = path
        self._known = json.loads(path.read_text()) if path.exists() else {"passes": 0, "tried": []}

    @property
    def tried(self):
        return self._known["tried"]

    @property
    def idea(self):
        return IDEAS[self.tried[-1]][0]

    @property
    def passes(self):
        return self._known["passes"]

    def take_next_idea(self):
        self.tried.append(min(len(self.tried), len(IDEAS) - 1))

    def begin_pass(self):
        self._known["passes"] += 1
        self._path.write_text(json.dumps(self._known))
        return self.passes


def read_feedback():
    path = os.environ.get("FUSION_FEEDBACK")
    return Path(path).read_text() if path else ""


def change_code(idea):
    head, _, _ = TARGET.read_text().partition(BODY)
    TARGET.write_text(head + IDEAS[idea][1])


def write_report(session):
    report = Path(os.environ["FUSION_OUTPUTS"], "report.json")
    facts = {
        "bug": "cents that do not divide evenly were lost",
        "file": str(TARGET),
        "function": "split",
        "change": session.idea,
        "passes": session.passes,
    }
    report.write_text(json.dumps(facts, indent=2) + "\n")
    return report


def write_manifest(report, *, careful):
    body = report.read_bytes()
    entry = {"output": "report", "path": report.name, "size": len(body)}
    if careful:
        entry["media_type"] = "application/json"
        entry["sha256"] = hashlib.sha256(body).hexdigest()
    else:
        entry["sha256"] = "0" * 64
    Path(os.environ["FUSION_MANIFEST"]).write_text(json.dumps({"artifacts": [entry]}))


def write_summary(text):
    Path(os.environ["FUSION_RESULT"]).write_text(f"# Bill splitting\n\nMended: {text}.\n" if text else " \n")


if __name__ == "__main__":
    main()
