"""The rules of `code_rules.py` hold for what is in the repository."""

import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator

from tests.arch import code_rules
from tests.arch.source_tree import PACKAGES, ROOT, Module, modules, under

ALL_CODE = (*PACKAGES, "scripts", "tests")
CALCULATING = (
    "fusiond.domain",
    "fusiond.codec",
    "fusiond.wire",
    "replay.guard",
    "replay.compare",
    "replay.check",
    "replay.report",
    "replay.lines",
    "replay.causes",
    "fusion_tui.view",
)
LAUNCHER = "fusiond.sandbox.inside"


def findings(rule: Callable[[Module], Iterator[str]], *packages: str) -> list[str]:
    """Return what `rule` finds in the modules under the given packages or modules."""
    roots = sorted({package.split(".")[0] for package in packages})
    return [found for module in modules(*roots) if under(module.name, *packages) for found in rule(module)]


def test_calculating_code_is_not_async() -> None:
    assert findings(code_rules.async_code, *CALCULATING) == []


def test_calculating_code_reads_no_clock() -> None:
    assert findings(code_rules.clock_reads, *CALCULATING, "fusiond.ports") == []


def test_domain_knows_only_pure_paths() -> None:
    assert findings(code_rules.concrete_paths, "fusiond.domain") == []


def test_domain_and_wire_records_are_frozen() -> None:
    assert findings(code_rules.open_records, "fusiond.domain", "fusiond.wire") == []


def test_records_are_made_quickly() -> None:
    packages = [module for module in modules(*PACKAGES) if not under(module.name, LAUNCHER)]
    assert [found for module in packages for found in code_rules.slow_records(module)] == []


def test_modules_and_functions_are_small() -> None:
    assert findings(code_rules.oversized, *ALL_CODE) == []


def test_names_say_what_is_inside() -> None:
    assert findings(code_rules.vague_names, *ALL_CODE) == []


def test_init_files_are_empty() -> None:
    assert findings(code_rules.filled_init, *PACKAGES) == []


def test_modules_say_what_they_own() -> None:
    assert findings(code_rules.undocumented_module, *ALL_CODE) == []


def test_public_definitions_are_documented() -> None:
    assert findings(code_rules.undocumented_definitions, "fusiond") == []


def test_ports_are_narrow() -> None:
    assert findings(code_rules.wide_ports, "fusiond.ports") == []


def test_domain_imports_the_standard_library_only() -> None:
    def foreign(module: Module) -> Iterator[str]:
        return code_rules.imports_beyond(module, *sys.stdlib_module_names, "fusiond.domain")

    assert findings(foreign, "fusiond.domain") == []


def test_launcher_imports_the_standard_library_only() -> None:
    # It is started as `python -I -S FILE`: without site-packages, and each further import costs a launch.
    def foreign(module: Module) -> Iterator[str]:
        return code_rules.imports_beyond(module, *sys.stdlib_module_names, LAUNCHER)

    assert findings(foreign, LAUNCHER) == []


def test_everything_is_caught_only_at_listed_boundaries() -> None:
    listed = tomllib.loads((ROOT / "tests/arch/broad_except.toml").read_text()).get("boundary", [])
    allowed = {(entry["module"], entry["function"]) for entry in listed if entry["reason"].strip()}
    found = {
        (module.name, function): f"{module.path}:{line}: {function} catches everything"
        for module in modules(*ALL_CODE)
        for function, line in code_rules.broad_handlers(module)
    }
    assert [where for place, where in found.items() if place not in allowed] == []
    assert allowed - found.keys() == set(), "listed in broad_except.toml, and no longer there"


def test_tests_wait_for_conditions() -> None:
    tests = [module for module in modules("tests") if module.name != "tests.waiting"]
    assert [found for module in tests for found in code_rules.sleeps(module)] == []


def test_no_test_is_left_out() -> None:
    tests = [module for module in modules("tests") if module.name != "tests.conftest"]
    assert [found for module in tests for found in code_rules.left_out_tests(module)] == []


def test_tests_replace_nothing_behind_the_code() -> None:
    assert findings(code_rules.patched_seams, "tests") == []


def test_test_files_have_names_of_their_own() -> None:
    counted = Counter(module.path.name for module in modules("tests") if module.path.name.startswith("test_"))
    assert [name for name, count in counted.items() if count > 1] == []


def test_test_directories_are_namespace_packages() -> None:
    assert [str(module.path) for module in modules("tests") if module.is_init] == []
