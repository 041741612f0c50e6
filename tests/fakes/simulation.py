"""The core played through without a world: state in, effects out, steps in.

`Playbook` stands for the shell. It performs what `decide` asks for by
appending the steps that a performance ends in (`performances`), one commit at
a time, and it can be killed, drained and cancelled between any two commits.
Nothing here knows the rules of the core.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from fusiond.domain.decide import ceiling, decide
from fusiond.domain.effects import Effect, FinishRun, ParkRun, StageEffect
from fusiond.domain.flow import Limits
from fusiond.domain.fold import fold
from fusiond.domain.ids import AttemptNumber, NodeId
from fusiond.domain.state import RunState
from fusiond.domain.steps.attempt import BlockReason, StageOutcome
from fusiond.domain.steps.people import ApprovalDecided, ApprovalDecision, Assurance
from fusiond.domain.steps.record import Payload
from fusiond.domain.steps.run import ResumeCause, RunCancelled, RunOutcome, RunParked, StagePlan
from fusiond.domain.transitions import RunPhase
from tests.fakes.chains import RUN, START_US, Chain, new_step
from tests.fakes.payloads import HOUR_US, digest, run_finished, run_resumed, run_started
from tests.fakes.performances import Performance, Script, performance_of

PACE_US = 1_000_000
"""How much time each commit takes."""


class Event(StrEnum):
    """What people and machines do to a daemon between two commits.

    CRASH: it is killed, and started again after an hour.
    LOSS: the same, and every worktree is gone.
    DRAIN: it ends its processes, stops, and is started again after an hour.
    CANCEL: a person cancels the run.
    """

    CRASH = "crash"
    LOSS = "loss"
    DRAIN = "drain"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What a run came to, without how long it took or how often it was interrupted."""

    outcome: RunOutcome | None
    conflict_paths: tuple[str, ...]
    stages: tuple[tuple[NodeId, StageOutcome | None, BlockReason | None, NodeId | None, str], ...]


class StuckError(AssertionError):
    """Nothing is due, nobody is busy, and the run is not over."""


class Playbook:
    """One run in the hands of a shell that does nothing by itself.

    Args:
        stages: the plan.
        within: the frozen limits.
        script: what the outside does.
        watch: called after every commit.
    """

    def __init__(
        self,
        *stages: StagePlan,
        within: Limits | None = None,
        script: Script | None = None,
        watch: Callable[["Playbook"], None] = lambda book: None,
    ) -> None:
        self.script = script or Script()
        self.watch = watch
        self.now_us = START_US
        self.worked_us = 0
        self.resumes = 0
        self.begun = 0
        self.ticks = 0
        self.lost: set[tuple[NodeId, AttemptNumber]] = set()
        self.parked_at: list[int] = []
        self.performing: dict[NodeId, Performance] = {}
        self.chain = Chain()
        started = run_started(*stages, within=within, missing_toolchains=self.script.missing_toolchains)
        self.first_limits = started.limits
        self.chain.of_run(started)

    @property
    def state(self) -> RunState:
        """Return what the ledger folds to."""
        return self.chain.state

    @property
    def ending(self) -> Ending:
        """Return what the run came to."""
        return Ending(
            outcome=self.state.outcome,
            conflict_paths=self.state.conflict_paths,
            stages=tuple(
                (node, stage.outcome, stage.block, stage.dependency, stage.detail)
                for node, stage in self.state.stages.items()
            ),
        )

    def due(self) -> tuple[Effect, ...]:
        """Return the effects that nobody performs yet."""
        return decide(self.state, self.now_us, frozenset(self.performing))

    # --- the shell's loop -------------------------------------------------------------------------

    def play(
        self, *, schedule: Sequence[int] = (0,), events: Mapping[int, Event] | None = None, bound: int = 5_000
    ) -> Ending:
        """Go on until the run is over.

        Args:
            schedule: which of the busy stages commits next, turn by turn, over and over.
            events: what happens before which tick.
            bound: ticks after which the run is taken for endless.

        Raises:
            StuckError: nothing is due although the run is not over, or it does not end.
        """
        for tick in range(bound):
            if self.state.phase.over:
                return self.ending
            self._happen((events or {}).get(tick))
            if not self.state.phase.over:
                self.tick(schedule[tick % len(schedule)])
        raise StuckError(f"the run is {self.state.phase} after {bound} ticks")

    def tick(self, chosen: int = 0) -> None:
        """Begin everything that is due and make one commit, that of the busy stage `chosen`."""
        self.ticks += 1
        if ceiling(self.state, self.now_us) is not None:
            self.end_processes()
        for effect in self.due():
            if isinstance(effect, ParkRun | FinishRun):
                self._perform_run(effect)
                return
            assert effect.node not in self.performing, f"two performers for {effect.node}"
            self.performing[effect.node] = self._begin(effect)
        if self.performing:
            names = sorted(self.performing)
            self._commit_next(names[chosen % len(names)])
        elif self.state.phase is RunPhase.PARKED:
            self.resume()
        elif self.state.phase is RunPhase.AWAITING_APPROVAL:
            self.answer()
        else:
            raise StuckError(f"nothing is due while the run is {self.state.phase}")

    def _happen(self, event: Event | None) -> None:
        match event:
            case None:
                pass
            case Event.CRASH:
                self.crash()
            case Event.LOSS:
                self.lose_worktrees()
                self.crash()
            case Event.DRAIN:
                self.end_processes()
                self.crash()
            case Event.CANCEL:
                self.cancel()
            case _:
                assert_never(event)

    # --- what people and machines do --------------------------------------------------------------

    def crash(self, down_us: int = HOUR_US) -> None:
        """Lose everything but the ledger, and start again."""
        self.performing.clear()
        self.chain.state = fold(RUN, self.chain.steps)
        self.now_us += down_us
        if self.state.phase is not RunPhase.PARKED and not self.state.phase.over:
            self._append(None, None, run_resumed(ResumeCause.RESTART, idle_us=down_us))

    def lose_worktrees(self) -> None:
        """Forget the worktrees of all attempts there are."""
        for node, stage in self.state.stages.items():
            self.lost |= {(node, each.number) for each in stage.attempts}

    def end_processes(self) -> None:
        """End every process and record its last words, as before parking, cancelling or a stop."""
        for node in sorted(self.performing):
            performance = self.performing.pop(node)
            if performance.began and performance.last_words:
                self._append(node, performance.attempt, *performance.last_words)

    def cancel(self) -> None:
        """Cancel the run as a person does; a second time changes nothing."""
        if self.state.phase is RunPhase.PARKED:
            self.now_us += HOUR_US
        if self.state.phase in (RunPhase.RUNNING, RunPhase.AWAITING_APPROVAL, RunPhase.PARKED):
            self._append(None, None, RunCancelled(by="someone", reason=""))
            self.end_processes()

    def resume(self) -> None:
        """Resume a parked run as a person does after an hour, with twice as much of everything as before."""
        more, first = 2**self.resumes, self.first_limits
        self.resumes += 1
        self.now_us += HOUR_US
        self._append(
            None,
            None,
            run_resumed(
                idle_us=self.now_us - self.parked_at[-1],
                wall_clock_us=first.wall_clock_us * more,
                tokens=(first.tokens or 0) * more,
                cost_uusd=(first.cost_uusd or 0) * more,
                tool_calls=(first.tool_calls or 0) * more,
            ),
        )

    def answer(self) -> None:
        """Answer the oldest question as a person does."""
        self._append(
            None,
            None,
            ApprovalDecided(
                request=self.state.pending_approvals[0],
                shown=digest("shown"),
                decision=ApprovalDecision.APPROVED_ONCE,
                assurance=Assurance.ADVISORY,
                by="someone",
                nonce="nonce",
            ),
        )

    # --- committing -------------------------------------------------------------------------------

    def _begin(self, effect: StageEffect) -> Performance:
        self.begun += 1
        stage = self.state.stages[effect.node]
        lost = stage.latest is not None and (effect.node, stage.latest.number) in self.lost
        return performance_of(
            effect,
            stage,
            self.script,
            repair_reruns=self.first_limits.repair_reruns,
            reservation=self.begun,
            lost=lost,
        )

    def _perform_run(self, effect: ParkRun | FinishRun) -> None:
        self._pass_time()
        if isinstance(effect, ParkRun):
            self.parked_at.append(self.now_us)
            self._append(None, None, RunParked(reason=effect.reason, detail=effect.detail))
            return
        outcome, paths = effect.outcome, tuple[str, ...]()
        if self.script.result_conflicts and outcome is RunOutcome.SUCCEEDED:
            outcome, paths = RunOutcome.FAILED, ("shared.txt",)
        self._append(None, None, run_finished(outcome, conflict_paths=paths))

    def _commit_next(self, node: NodeId) -> None:
        performance = self.performing[node]
        payloads = performance.commits.pop(0)
        performance.began = True
        if not performance.commits:
            del self.performing[node]
        self._pass_time()
        self._append(node, performance.attempt, *payloads)

    def _pass_time(self) -> None:
        self.now_us += PACE_US
        self.worked_us += PACE_US

    def _append(self, node: NodeId | None, attempt: AttemptNumber | None, *payloads: Payload) -> None:
        self.chain.append([new_step(each, node, attempt, self.now_us) for each in payloads])
        self.watch(self)
