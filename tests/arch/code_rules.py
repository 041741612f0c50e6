"""The rules that imports cannot show, each a function from a module to its findings.

Owns what a finding is; which modules a rule covers is decided in `test_code_rules.py`,
and that each rule finds what it is for is shown in `test_code_rules_bite.py`.
"""

import ast
from collections.abc import Iterator

from tests.arch.source_tree import PACKAGES, Module, under

MAX_MODULE_LINES = 600
MAX_FUNCTION_LINES = 50
MAX_PORT_METHODS = 8
FORBIDDEN_MODULES = frozenset(
    {"base", "common", "core", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
)
FORBIDDEN_CLASS_ENDINGS = ("Manager", "Helper", "Impl")
CLOCK_CALLS = frozenset({"now", "utcnow", "today"})
BROAD = frozenset({"Exception", "BaseException"})
LEAVING_OUT = frozenset({"skip", "skipif", "xfail", "importorskip", "flaky"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def async_code(module: Module) -> Iterator[str]:
    """Find `async def`, `async for`, `async with`: a pure module has no use for them."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith):
            yield module.at(node, "async in a pure module")


def clock_reads(module: Module) -> Iterator[str]:
    """Find `.now()`, `.utcnow()` and `.today()`: times are arguments."""
    for call in _calls(module):
        if isinstance(call.func, ast.Attribute) and call.func.attr in CLOCK_CALLS:
            yield module.at(call, f"reads the clock through .{call.func.attr}()")


def concrete_paths(module: Module) -> Iterator[str]:
    """Find uses of pathlib that could touch a disk: only PurePosixPath cannot."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import) and any(alias.name == "pathlib" for alias in node.names):
            yield module.at(node, "imports pathlib whole; take PurePosixPath from it")
        if isinstance(node, ast.ImportFrom) and node.module == "pathlib":
            for alias in node.names:
                if alias.name != "PurePosixPath":
                    yield module.at(node, f"imports pathlib.{alias.name}; only PurePosixPath is pure")


def open_records(module: Module) -> Iterator[str]:
    """Find dataclasses that are not `frozen=True, slots=True`."""
    for node in _classes(module):
        for decorator in node.decorator_list:
            if "dataclass" in _names(decorator):
                keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
                true = {word.arg for word in keywords if _is_true(word.value)}
                if not {"frozen", "slots"} <= true:
                    yield module.at(node, f"record {node.name} is not frozen and slotted")


def slow_records(module: Module) -> Iterator[str]:
    """Find records that the standard library makes; `domain.records` makes them in a third of the time."""
    theirs = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "dataclasses"
        and any(alias.name == "dataclass" for alias in node.names)
        for node in ast.walk(module.tree)
    )
    for node in _classes(module) if theirs else ():
        for decorator in node.decorator_list:
            keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
            if "dataclass" in _names(decorator) and {"frozen", "slots"} <= {word.arg for word in keywords}:
                yield module.at(node, f"record {node.name} is made by dataclasses, not by domain.records")


def oversized(module: Module) -> Iterator[str]:
    """Find modules and functions past their limits; a function's docstring does not count."""
    lines = len(module.text.splitlines())
    if lines > MAX_MODULE_LINES:
        yield f"{module.path}:1: {lines} lines; the limit is {MAX_MODULE_LINES}"
    for function in _functions(module):
        length = _length(function)
        if length > MAX_FUNCTION_LINES:
            yield module.at(
                function, f"{function.name} has {length} lines; the limit is {MAX_FUNCTION_LINES}"
            )


def vague_names(module: Module) -> Iterator[str]:
    """Find module and class names that say nothing about what is inside."""
    for part in module.name.split("."):
        if part in FORBIDDEN_MODULES:
            yield f"{module.path}:1: a module or package called {part}"
    for node in _classes(module):
        if node.name.endswith(FORBIDDEN_CLASS_ENDINGS):
            yield module.at(node, f"a class called {node.name}")


def filled_init(module: Module) -> Iterator[str]:
    """Find an `__init__.py` with anything in it."""
    if module.is_init and module.text.strip():
        yield f"{module.path}:1: __init__.py is not empty"


def undocumented_module(module: Module) -> Iterator[str]:
    """Find modules without a docstring."""
    if not module.is_init and ast.get_docstring(module.tree) is None:
        yield f"{module.path}:1: no module docstring"


def undocumented_definitions(module: Module) -> Iterator[str]:
    """Find public functions and classes of a module, and methods of a Protocol, without a docstring."""
    for node in module.tree.body:
        if isinstance(node, Function | ast.ClassDef) and not _is_documented(node):
            yield module.at(node, f"{node.name} has no docstring")
        if isinstance(node, ast.ClassDef) and _is_protocol(node):
            for method in node.body:
                if isinstance(method, Function) and not _is_documented(method):
                    yield module.at(method, f"{node.name}.{method.name} has no docstring")


def wide_ports(module: Module) -> Iterator[str]:
    """Find Protocols with more methods than one concern needs."""
    for node in _classes(module):
        methods = sum(isinstance(member, Function) for member in node.body)
        if _is_protocol(node) and methods > MAX_PORT_METHODS:
            yield module.at(node, f"port {node.name} has {methods} methods; the limit is {MAX_PORT_METHODS}")


def broad_handlers(module: Module) -> Iterator[tuple[str, int]]:
    """Find where everything is caught: qualified name of the function, and line.

    A handler that ends by raising swallows nothing and is not counted;
    `contextlib.suppress(Exception)` is.
    """
    yield from _broad_handlers_in(module.tree, ())


def sleeps(module: Module) -> Iterator[str]:
    """Find `time.sleep` and `asyncio.sleep` of anything but 0."""
    from_time = {"time", "asyncio", "anyio", "trio"}
    bare = {
        alias.asname or alias.name
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.module in from_time
        for alias in node.names
        if alias.name == "sleep"
    }
    for call in _calls(module):
        func = call.func
        qualified = (
            isinstance(func, ast.Attribute) and func.attr == "sleep" and _names(func.value) & from_time
        )
        if qualified or (isinstance(func, ast.Name) and func.id in bare):
            lets_others_run = [ast.dump(arg) for arg in call.args] == [ast.dump(ast.Constant(0))]
            if not lets_others_run:
                yield module.at(call, "sleeps; wait for a condition (tests/waiting.py)")


def left_out_tests(module: Module) -> Iterator[str]:
    """Find skips, expected failures and retries."""
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in LEAVING_OUT
            and _names(node.value) & {"pytest", "mark"}
        ):
            yield module.at(node, f"pytest's {node.attr}; a tool may be asked for by needs_tool")


def patched_seams(module: Module) -> Iterator[str]:
    """Find replaced attributes of our own packages: what a test replaces, it passes in through a port."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            imported = {f"{package}{alias.name}" for alias in node.names}
            if any(name.startswith(("mock", "unittest.mock")) for name in imported):
                yield module.at(node, "imports mock; write a fake behind the port")
    for call in _calls(module):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "setattr" and call.args:
            target = call.args[0]
            text = target.value if isinstance(target, ast.Constant) else None
            if isinstance(text, str) and text.split(".")[0] in PACKAGES:
                yield module.at(call, f"patches {text} by its name")


def imports_beyond(module: Module, *allowed: str) -> Iterator[str]:
    """Find imports of anything but the modules in `allowed` and what is inside them."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        else:
            continue
        for name in names:
            if not under(name, *allowed):
                yield module.at(node, f"imports {name}")


def _calls(module: Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))


def _classes(module: Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef))


def _functions(module: Module) -> Iterator[Function]:
    return (node for node in ast.walk(module.tree) if isinstance(node, Function))


def _names(node: ast.AST) -> set[str]:
    """Return every name and attribute that occurs in an expression."""
    found = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return found | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _length(function: Function) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not body:
        return 0
    signature = function.body[0].lineno - function.lineno
    return signature + (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1


def _is_documented(node: Function | ast.ClassDef) -> bool:
    return node.name.startswith("_") or ast.get_docstring(node) is not None or _is_overload(node)


def _is_overload(node: Function | ast.ClassDef) -> bool:
    return any("overload" in _names(decorator) for decorator in node.decorator_list)


def _is_protocol(node: ast.ClassDef) -> bool:
    return any("Protocol" in _names(base) for base in node.bases)


def _broad_handlers_in(node: ast.AST, scope: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        inner = (*scope, child.name) if isinstance(child, Function | ast.ClassDef) else scope
        if isinstance(child, ast.ExceptHandler):
            caught = BROAD if child.type is None else _names(child.type)
            if caught & BROAD and not isinstance(child.body[-1], ast.Raise):
                yield ".".join(scope), child.lineno
        if isinstance(child, ast.Call) and _suppresses_everything(child):
            yield ".".join(scope), child.lineno
        yield from _broad_handlers_in(child, inner)


def _suppresses_everything(call: ast.Call) -> bool:
    return "suppress" in _names(call.func) and any(_names(arg) & BROAD for arg in call.args)
