"""Kill points: between execution and every port, a place at which the daemon can die.

A plan names one point as a label and an occurrence, such as `after
ledger.append` and 3. When it is reached the process kills itself with SIGKILL:
nothing is flushed, closed or told. Every point that is passed is written to a
log first, so that a run without a kill says which points there are.
"""

import asyncio
import inspect
import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path

from fusiond.execution.services import Services

PLAN_VARIABLE = "FUSION_TEST_KILL_PLAN"

EFFECTS = {
    "ledger": {"append"},
    "queue": {"claim", "release"},
    "content": {"put", "adopt"},
    "workspace": {"resolve_base", "merge", "prepare", "snapshot", "commit", "discard"},
    "results": {"pin_run", "pin_result"},
    "setups": {"store", "lay"},
    "snapshots": {"stage", "publish", "drop", "hand_over"},
    "launcher": {"launch"},
}
"""Port methods that change the world; what only reads or renews is no point."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where to die: the `nth` time that `label` is reached; 0 is never.

    `by` is the signal: SIGKILL, or SIGSTOP to be frozen instead, again and
    again after every SIGCONT, until the file `thaw` exists: whoever froze it
    may find that the ledger's thread was stopped inside a transaction.
    """

    log: Path
    label: str = ""
    nth: int = 0
    by: int = signal.SIGKILL

    @property
    def thaw(self) -> Path:
        """The file that ends a freeze."""
        return self.log.with_suffix(".thaw")

    def environment(self) -> dict[str, str]:
        """Return the variable that carries the plan into a daemon."""
        text = json.dumps({"log": str(self.log), "label": self.label, "nth": self.nth, "by": self.by})
        return {PLAN_VARIABLE: text}


def plan_of(environ: dict[str, str]) -> Plan:
    """Read the plan from a daemon's environment."""
    value = json.loads(environ[PLAN_VARIABLE])
    return Plan(Path(value["log"]), value["label"], value["nth"], value["by"])


class Killer:
    """Counts points and dies at the planned one."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._seen: Counter[str] = Counter()
        self._log = os.open(plan.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def reach(self, label: str) -> None:
        """Pass a point, or die at it."""
        self._seen[label] += 1
        os.write(self._log, f"{label}\t{self._seen[label]}\n".encode())
        if label == self._plan.label and self._seen[label] == self._plan.nth:
            os.kill(os.getpid(), self._plan.by)
            while not self._plan.thaw.exists():
                os.kill(os.getpid(), self._plan.by)

    def wrap(self, services: Services) -> Services:
        """Put a point before, after and, for launches, in the middle of every effect."""
        wrapped = {name: Pointed(name, getattr(services, name), self.reach) for name in EFFECTS}
        return replace(services, **wrapped)  # type: ignore[arg-type]


class Pointed:
    """A port with points around its effects."""

    def __init__(self, name: str, port: object, reach: Callable[[str], None]) -> None:
        self._name = name
        self._port = port
        self._reach = reach

    def __getattr__(self, attribute: str) -> object:
        value = getattr(self._port, attribute)
        if attribute not in EFFECTS[self._name] or not inspect.iscoroutinefunction(value):
            return value
        label = f"{self._name}.{attribute}"

        async def call(*args: object, **kwargs: object) -> object:
            self._reach(f"before {label}")
            work: Coroutine[object, object, object] = value(*args, **kwargs)
            if label == "launcher.launch":
                result = await self._launched(work, Path(args[0].log_path))  # type: ignore[attr-defined]
            else:
                result = await work
            self._reach(f"after {label}")
            return result

        return call

    async def _launched(self, work: Coroutine[object, object, object], log: Path) -> object:
        """Pass a point while the process lives: its log file appears once it was started."""
        task = asyncio.ensure_future(work)
        while not task.done() and not log.exists():
            await asyncio.wait([task], timeout=0.001)
        self._reach("during launcher.launch")
        return await task
