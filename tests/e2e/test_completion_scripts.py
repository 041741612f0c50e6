"""Shell completion: the scripts are what the shells take, and they ask the program what fits."""

import pytest

from tests.e2e.shell import Shell


@pytest.mark.parametrize(
    "shell_name, part", [("bash", "complete -o"), ("zsh", "#compdef fusion"), ("fish", "complete --no-files")]
)
def test_script_is_for_its_shell(shell: Shell, shell_name: str, part: str) -> None:
    script = shell.fusion("completion", shell_name).out
    assert part in script
    assert "_FUSION_COMPLETE" in script


def test_bash_completes_commands_and_options(shell: Shell) -> None:
    script = shell.fusion("completion", "bash").out
    asked = f"""
{script}
COMP_WORDS=(fusion do); COMP_CWORD=1; _fusion_completion fusion; printf '%s\\n' "${{COMPREPLY[@]}}"
COMPREPLY=()
COMP_WORDS=(fusion run --de); COMP_CWORD=2; _fusion_completion fusion; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    ended = shell.command(["bash", "-c", asked])
    assert ended.out.split() == ["doctor", "--detach"]
