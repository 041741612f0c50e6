"""Fixtures of the end-to-end tests: shells that are always closed."""

from collections.abc import Iterator

import pytest

from tests.e2e.shell import Shell


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    """Return a shell for the whole module; the module makes its repository."""
    made = Shell()
    yield made
    made.close()


@pytest.fixture
def own_shell() -> Iterator[Shell]:
    """Return a shell for one test."""
    made = Shell()
    yield made
    made.close()
