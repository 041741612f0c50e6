"""Puts one launch together: order, descriptors and, with walls, bubblewrap's command line.

Owns the way from a `LaunchSpec` to a started launcher process. Waits for nothing.
"""

import os
from collections.abc import Sequence

from fusiond.domain.launch import LaunchSpec, Mount
from fusiond.domain.records import dataclass
from fusiond.sandbox import bubblewrap
from fusiond.sandbox.host import LauncherHost, Walls
from fusiond.sandbox.inside import fields
from fusiond.sandbox.mount_rules import LAUNCHER
from fusiond.sandbox.plumbing import Channels, Plumbing, connect
from fusiond.sandbox.running import Running
from fusiond.sandbox.toolchains import SYSTEM, Toolchains, inside

_INSIDE = "fusiond/sandbox/inside"
_PROGRAM = f"{_INSIDE}/launcher_main.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a launch takes place.

    Args:
        host: this host.
        walls: bubblewrap, None to go without.
        tree: the system directories.
        toolchains: what the launch's search path shows, and the variables that it needs for it.
    """

    host: LauncherHost
    walls: Walls | None
    tree: bubblewrap.HostTree
    toolchains: Toolchains


def start(setting: Setting, spec: LaunchSpec, log: int) -> Running:
    """Start the launcher of `spec`.

    Args:
        setting: where.
        spec: what.
        log: the output log, open for writing and empty; closed here, come what may.

    Raises:
        OSError: no process or no descriptor can be had.
        ValueError: something that is handed to `exec` holds a NUL.
    """
    plumbing = Plumbing(theirs=[log])
    try:
        channels = connect(plumbing, walled=setting.walls is not None)
        document = plumbing.document(fields.pack(order_pairs(setting, spec, channels, log)))
        root = str(setting.host.packages) if setting.walls is None else LAUNCHER
        program = (str(setting.host.python), "-I", "-S", f"{root}/{_PROGRAM}", root, str(document))
        argv = _enclose(setting, spec, plumbing, channels, program)
        return Running(argv, spec.marker, plumbing, channels)
    except BaseException:
        plumbing.close()
        raise


def order_pairs(setting: Setting, spec: LaunchSpec, channels: Channels, log: int) -> list[tuple[str, bytes]]:
    """Return the launcher's order; see `inside.order.Order`.

    The environment is the spec's and the marker; a toolchain's own variable is added where the spec
    does not say otherwise, since a rustup behind another HOME finds nothing without.
    """
    env = {**dict(setting.toolchains.variables), **dict(spec.env), "FUSION_ATTEMPT": spec.marker}
    pairs = [("argv", os.fsencode(argument)) for argument in spec.argv]
    pairs += [("env", os.fsencode(f"{name}={value}")) for name, value in env.items()]
    numbers = {
        "timeout_us": spec.timeout_us,
        "grace_us": spec.grace_us,
        "cap_bytes": spec.output_cap_bytes,
        "whole_namespace": int(setting.walls is not None),
        "log": log,
        "report": channels.report.write,
        "control": channels.control.read,
    }
    pairs += [(name, b"%d" % number) for name, number in numbers.items()]
    return [*pairs, ("cwd", os.fsencode(spec.cwd))]


def _enclose(
    setting: Setting, spec: LaunchSpec, plumbing: Plumbing, channels: Channels, program: Sequence[str]
) -> Sequence[str]:
    """Return the command line that runs the launcher, behind walls where there are any."""
    if setting.walls is None or channels.info is None or channels.gate is None:
        return program
    identity = bubblewrap.identity_files(
        uid=os.getuid(), gid=os.getgid(), home=dict(spec.env).get("HOME", "/"), network=spec.network
    )
    enclosure = bubblewrap.Enclosure(
        host=setting.tree,
        toolchains=(*_with_python(setting), _launcher_mount(setting.host)),
        mounts=spec.mounts,
        files=tuple((plumbing.document(content), target) for target, content in identity),
        network=spec.network,
        marker=spec.marker,
        nested_namespaces=setting.walls.nested_namespaces,
        info=channels.info.write,
        gate=channels.gate.read,
    )
    options = b"".join(os.fsencode(option) + b"\0" for option in bubblewrap.options(enclosure))
    return (setting.walls.program, "--args", str(plumbing.document(options)), "--", *program)


def _launcher_mount(host: LauncherHost) -> Mount:
    return Mount(source=str(host.packages / _INSIDE), target=f"{LAUNCHER}/{_INSIDE}")


def _with_python(setting: Setting) -> tuple[Mount, ...]:
    """Return the toolchains and the launcher's own interpreter, unless one of them shows it already."""
    prefix = str(setting.host.python_prefix)
    shown = setting.toolchains.mounts
    if inside(prefix, *SYSTEM, *(mount.target for mount in shown if mount.source == mount.target)):
        return shown
    apart = [mount for mount in shown if not inside(mount.target, prefix)]
    return (*apart, Mount(source=prefix, target=prefix))
