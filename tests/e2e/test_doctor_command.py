"""`fusion doctor` says what it found, and its exit code follows from it."""

from tests.e2e.shell import Shell

LAYERS = [
    "python",
    "git",
    "bubblewrap",
    "user namespaces",
    "nested namespaces",
    "hole punching",
    "control groups",
    "runtime directory",
]


def test_doctor_agrees_with_the_daemon(own_shell: Shell) -> None:
    own_shell.repository({"a.txt": "a\n"})
    own_shell.fusion("init")
    own_shell.fusion("daemon", "start")
    facts = dict(own_shell.document("daemon", "status")["facts"])
    code = 0 if facts["isolation"] == "bubblewrap" else 2
    document = own_shell.document("doctor", code=code)
    assert (document["isolation"], document["exit_code"]) == (facts["isolation"], code)
    assert [layer["name"] for layer in document["layers"]] == LAYERS
    told = own_shell.fusion("doctor", code=code).out
    assert f"isolation: {facts['isolation']}: " in told
    assert all(layer["cure"] in told for layer in document["layers"])


def test_doctor_names_the_cure_of_a_runtime_directory(own_shell: Shell) -> None:
    nowhere = own_shell.place / "nowhere"
    told = own_shell.fusion("doctor", env={"XDG_RUNTIME_DIR": str(nowhere)}, code=None).out
    assert f"{nowhere} is not there" in told
    assert f"to raise it: mkdir -m 700 {nowhere}" in told
