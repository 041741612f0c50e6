"""Workspaces over real repositories, closed when the test ends."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.workspace.site import Site, Sites


@pytest.fixture
async def sites(tmp_path: Path) -> AsyncIterator[Sites]:
    """Make workspaces below the test's own directory."""
    made = Sites(tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def site(sites: Sites) -> Site:
    """A workspace with a small repository of three commits."""
    return sites.make(
        [
            {"README.md": b"first\n", "src/app.py": b"one = 1\n"},
            {"src/app.py": b"one = 1\ntwo = 2\n", "docs/guide.txt": b"guide\n"},
            {"README.md": b"third\n", "tool.sh": b"#!/bin/sh\n"},
        ]
    )
