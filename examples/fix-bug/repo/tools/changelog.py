"""Adds the report's change to CHANGELOG.md, and hands the entry over as an artifact."""

import json
import os
from pathlib import Path

HEADING = "## Unreleased\n"


def main():
    report = json.loads(Path(os.environ["FUSION_INPUTS"], "report").read_text())
    entry = f"- `{report['function']}`: {report['change']}.\n"
    changelog = Path("CHANGELOG.md")
    before, heading, after = changelog.read_text().partition(HEADING)
    changelog.write_text(f"{before}{heading}\n{entry}{after}")
    Path(os.environ["FUSION_OUTPUTS"], "entry.md").write_text(entry)


if __name__ == "__main__":
    main()
