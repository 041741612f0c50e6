"""Rules of prompts: an agent is asked exactly once, and templates name what a run has.

`run:` and gates are never templates: a `{{` there is two braces.
"""

from collections.abc import Iterable

from fusiond.codec.flowfile.problems import FlowProblem, FlowProblemCode, KeyPath, near_miss, one_of
from fusiond.codec.flowfile.reading.report import Report, Spot
from fusiond.codec.flowfile.reading.source import Source
from fusiond.codec.flowfile.reading.tree import quoted
from fusiond.codec.flowfile.sections.flow import FlowDraft
from fusiond.codec.flowfile.sections.presumed import AGENTS
from fusiond.domain.flow import NodeKind
from fusiond.domain.templates import IDENTITIES, INPUT_PREFIX, OPEN, Template, find_templates


def check_prompts(draft: FlowDraft, report: Report) -> None:
    """Report agents that are asked nothing or twice, and templates that name nothing."""
    names = template_names(report.names(("inputs",)))
    for node in draft.nodes:
        path: KeyPath = ("nodes", node.id)
        asked = [key for key in ("prompt", "prompt_file") if report.spot((*path, key))]
        if node.kind in AGENTS and len(asked) == 2:
            found, expected = "prompt_file: beside prompt:", "one of the two"
            report.at((*path, "prompt_file"), FlowProblemCode.VALUE, found, expected)
        if node.kind is NodeKind.ACP and not asked:
            expected = "prompt: or prompt_file:"
            report.at((*path, "prompt"), FlowProblemCode.MISSING_KEY, "nothing", expected)
        for spot in (report.spot((*path, "prompt")), report.spot((*path, "approval", "ask"))):
            if spot:
                _check_text(spot, names, report)


def template_names(inputs: Iterable[str]) -> list[str]:
    """Return every name that a template of a flow with these inputs may hold."""
    return [*(f"{INPUT_PREFIX}{name}" for name in inputs), *IDENTITIES]


def _check_text(spot: Spot, names: list[str], report: Report) -> None:
    starts = _starts(spot, report)
    for number, template in enumerate(find_templates(spot.text)):
        if template.name not in names:
            code, found, suggestion = _judged(template, spot.text, names)
            index = starts[number] if number < len(starts) else spot.node.at
            expected, cure = expected_template(names), _CURE
            report.add(code, index, spot.path, found, expected, suggestion=suggestion, cure=cure)


def _starts(spot: Spot, report: Report) -> list[int]:
    """Return where in the file each template of a scalar starts.

    Nothing where the file spells a brace otherwise than the text has it.
    """
    end = getattr(spot.node, "end", spot.node.at)
    raw = report.source.text[spot.node.at : end]
    starts = [spot.node.at + template.start for template in find_templates(raw)]
    return starts if len(starts) == len(find_templates(spot.text)) else []


_CURE = "there is no escape; text with literal braces can come in through an input"


def _judged(template: Template, text: str, names: list[str]) -> tuple[FlowProblemCode, str, str]:
    if template.name is None:
        found = quoted(text[template.start : template.start + 30])
        return FlowProblemCode.TEMPLATE, f"the malformed template {found}", ""
    near = near_miss(template.name, names)
    suggestion = f"{OPEN} {near} }}}}" if near else ""
    is_input = template.name.startswith(INPUT_PREFIX)
    code = FlowProblemCode.UNKNOWN_INPUT if is_input else FlowProblemCode.TEMPLATE
    return code, f"the template {quoted(template.name)}", suggestion


def expected_template(names: list[str]) -> str:
    """Say in words which templates may stand in a prompt."""
    return one_of("templates", [f"{OPEN} {name} }}}}" for name in names])


def problems_of_prompt(source: Source, file: str, names: list[str]) -> list[FlowProblem]:
    """Return what is wrong with the templates of a prompt file.

    Args:
        source: the file's text.
        file: its path, for the problems.
        names: as `template_names` gives them.
    """
    problems: list[FlowProblem] = []
    for template in find_templates(source.text):
        if template.name in names:
            continue
        code, found, suggestion = _judged(template, source.text, names)
        line, column = source.place(template.start)
        problems.append(
            FlowProblem(
                code=code,
                file=file,
                line=line,
                column=column,
                path="",
                found=found,
                expected=expected_template(names),
                suggestion=suggestion,
                cure=_CURE,
            )
        )
    return problems
