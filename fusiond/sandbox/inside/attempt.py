"""`fusion-attempt`: writes and checks manifest and summary from inside an attempt.

It works on files alone and speaks to nobody. It must run with `python -I -S`
inside a sandbox that has no Fusion installed, so it uses the standard library
only and stands on its own. What counts is decided by the supervisor when it
freezes; `check` tells beforehand what would be found.
"""

import argparse
import fnmatch
import hashlib
import json
import mimetypes
import os
import shutil
import sys
from pathlib import Path

CHUNK = 1024 * 1024
MAX_SUMMARY_BYTES = 256 * 1024


class AttemptError(Exception):
    """Something the caller must change; the text says what."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns 0, 1 when a check finds problems, 64 on a wrong call."""
    options = _parser().parse_args(arguments)
    try:
        match options.command:
            case "put":
                return _put(options.name, Path(options.file), options.media_type)
            case "extra":
                return _extra(options.path, Path(options.file), options.media_type)
            case "result":
                return _result(options.text)
            case _:
                return _check()
    except (AttemptError, OSError) as error:
        sys.stderr.write(f"fusion-attempt: {error}\n")
        return 64


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fusion-attempt", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    put = commands.add_parser("put", help="copy FILE as the declared output NAME and list it")
    put.add_argument("name")
    put.add_argument("file")
    put.add_argument("--media-type", default=None)
    extra = commands.add_parser("extra", help="copy FILE as an undeclared artifact at PATH and list it")
    extra.add_argument("path")
    extra.add_argument("file")
    extra.add_argument("--media-type", default=None)
    result = commands.add_parser("result", help="write the result summary; `-` reads it from stdin")
    result.add_argument("text")
    commands.add_parser("check", help="say what is missing or wrong before the supervisor does")
    return parser


def _variable(name: str) -> Path:
    value = os.environ.get(name)
    if not value:
        raise AttemptError(f"{name} is not set; this runs inside an attempt only")
    return Path(value)


def _contract() -> list[dict[str, object]]:
    declared = json.loads(_variable("FUSION_CONTRACT").read_text(encoding="utf-8"))
    return list(declared["outputs"])


def _put(name: str, source: Path, media_type: str | None) -> int:
    for output in _contract():
        if output["name"] == name:
            path = _target_of(output, source)
            _place(source, path)
            _list(path, name, media_type or _text(output.get("media_type")) or _guess(path))
            return 0
    known = ", ".join(str(each["name"]) for each in _contract()) or "none"
    raise AttemptError(f"no output {name!r} is declared; declared: {known}. `extra` adds others")


def _extra(path: str, source: Path, media_type: str | None) -> int:
    parts = path.split("/")
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise AttemptError(f"{path!r} must be a plain relative path")
    _place(source, path)
    _list(path, None, media_type or _guess(path))
    return 0


def _target_of(output: dict[str, object], source: Path) -> str:
    path = _text(output.get("path"))
    if path:
        return path
    pattern = _text(output.get("collect")) or "*"
    directory = pattern.rpartition("/")[0]
    if any(mark in directory for mark in "*?["):
        raise AttemptError(f"put cannot choose a directory for {pattern!r}; copy the file and use `extra`")
    target = f"{directory}/{source.name}" if directory else source.name
    if not fnmatch.fnmatchcase(target, pattern):
        raise AttemptError(f"{source.name} does not match {pattern!r}")
    return target


def _place(source: Path, path: str) -> None:
    target = _variable("FUSION_OUTPUTS") / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.resolve() != target.resolve():
        shutil.copyfile(source, target)


def _list(path: str, output: str | None, media_type: str) -> None:
    entry: dict[str, object] = {
        "output": output,
        "path": path,
        "media_type": media_type,
        "size": (_variable("FUSION_OUTPUTS") / path).stat().st_size,
        "sha256": _digest(_variable("FUSION_OUTPUTS") / path),
    }
    manifest = _variable("FUSION_MANIFEST")
    entries = [each for each in _entries(manifest) if each.get("path") != path]
    entries.append(entry)
    entries.sort(key=lambda each: str(each.get("path")))
    fresh = manifest.with_name(f".{manifest.name}.new")
    fresh.write_text(json.dumps({"artifacts": entries}, indent=1) + "\n", encoding="utf-8")
    fresh.replace(manifest)


def _entries(manifest: Path) -> list[dict[str, object]]:
    try:
        value = json.loads(manifest.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise AttemptError(f"{manifest} is no JSON ({error}); remove or mend it") from error
    entries = value.get("artifacts") if isinstance(value, dict) else value
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise AttemptError(f"{manifest} has no list of artifacts; remove or mend it")
    return entries


def _result(text: str) -> int:
    body = sys.stdin.read() if text == "-" else text
    if not body.strip():
        raise AttemptError("a result summary must not be blank")
    if len(body.encode()) > MAX_SUMMARY_BYTES:
        raise AttemptError(f"a result summary may have {MAX_SUMMARY_BYTES} bytes")
    _variable("FUSION_RESULT").write_text(body if body.endswith("\n") else body + "\n", encoding="utf-8")
    return 0


def _check() -> int:
    problems = [*_manifest_problems(), *_summary_problems()]
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    if not problems:
        sys.stdout.write("manifest and summary look complete\n")
    return 1 if problems else 0


def _manifest_problems() -> list[str]:
    manifest, outputs = _variable("FUSION_MANIFEST"), _variable("FUSION_OUTPUTS")
    if not manifest.exists():
        return [f"manifest missing: write {manifest}, or use `fusion-attempt put`"]
    try:
        entries = _entries(manifest)
    except AttemptError as error:
        return [str(error)]
    problems = [] if entries else ["manifest lists no artifact"]
    for entry in entries:
        problems += _entry_problems(entry, outputs)
    listed = {each.get("output") for each in entries}
    problems += [
        f"output {each['name']} is required and not listed"
        for each in _contract()
        if not each.get("optional") and each["name"] not in listed
    ]
    return problems


def _entry_problems(entry: dict[str, object], outputs: Path) -> list[str]:
    path = entry.get("path")
    if not isinstance(path, str):
        return ["an entry has no path"]
    missing = [name for name in ("media_type", "size", "sha256") if name not in entry]
    if missing:
        return [f"{path}: {', '.join(missing)} missing"]
    target = outputs / path
    if target.is_symlink() or not target.is_file():
        return [f"{path}: no regular file below {outputs}"]
    problems = []
    if entry["size"] != target.stat().st_size:
        problems.append(f"{path}: size {entry['size']}, the file has {target.stat().st_size}")
    if entry["sha256"] != _digest(target):
        problems.append(f"{path}: sha256 differs from the file's")
    return problems


def _summary_problems() -> list[str]:
    summary = _variable("FUSION_RESULT")
    try:
        text = summary.read_text(encoding="utf-8")
    except FileNotFoundError:
        return [f"summary missing: write {summary}, or use `fusion-attempt result`"]
    except UnicodeDecodeError:
        return ["the summary is not UTF-8"]
    return [] if text.strip() else ["the summary is blank"]


def _digest(path: Path) -> str:
    state = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            state.update(chunk)
    return state.hexdigest()


def _guess(path: str) -> str:
    return mimetypes.guess_type(path)[0] or "application/octet-stream"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


if __name__ == "__main__":
    sys.exit(main())
