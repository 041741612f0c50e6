"""The table of methods: name, parameters, result, and whether it changes anything.

A mutation carries a client-made key, so that asking again is one act;
`daemon.stop` needs none, since stopping twice is stopping. The methods that
push (`STREAMING`) are answered by the session itself, all others by handlers.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar

from fusiond.domain.records import dataclass
from fusiond.wire.params import (
    ArtifactListParams,
    ArtifactPageParams,
    CodeDiffParams,
    CodeListParams,
    CodePageParams,
    DaemonStopParams,
    LogListParams,
    LogPageParams,
    Nothing,
    OutputFollowParams,
    RunCancelParams,
    RunListParams,
    RunParams,
    RunResumeParams,
    RunStepsParams,
    RunSubmitParams,
    SubscribeParams,
    UnsubscribeParams,
)
from fusiond.wire.results import (
    ArtifactList,
    BodyPage,
    CodeList,
    DaemonStatus,
    Following,
    LogList,
    MergeResult,
    Pong,
    RunList,
    RunRef,
    RunShown,
    RunSteps,
    RunWhy,
    Subscribed,
)

P_co = TypeVar("P_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(Generic[P_co, R_co]):
    """One method of the protocol.

    Args:
        name: `noun.verb`, as on the wire.
        params: the record of its parameters.
        result: the record of its result.
        mutation: it changes something.
        keyed: it needs a client-made key; True for every mutation that is not idempotent by nature.
    """

    name: str
    params: type[P_co]
    result: type[R_co]
    mutation: bool = False
    keyed: bool = False


PING = Method(name="ping", params=Nothing, result=Pong)
DAEMON_STATUS = Method(name="daemon.status", params=Nothing, result=DaemonStatus)
DAEMON_STOP = Method(name="daemon.stop", params=DaemonStopParams, result=Nothing, mutation=True)

RUN_SUBMIT = Method(name="run.submit", params=RunSubmitParams, result=RunRef, mutation=True, keyed=True)
RUN_LIST = Method(name="run.list", params=RunListParams, result=RunList)
RUN_SHOW = Method(name="run.show", params=RunParams, result=RunShown)
RUN_STEPS = Method(name="run.steps", params=RunStepsParams, result=RunSteps)
RUN_WHY = Method(name="run.why", params=RunParams, result=RunWhy)
RUN_CANCEL = Method(name="run.cancel", params=RunCancelParams, result=RunRef, mutation=True, keyed=True)
RUN_RESUME = Method(name="run.resume", params=RunResumeParams, result=RunRef, mutation=True, keyed=True)
RUN_MERGE = Method(name="run.merge", params=RunParams, result=MergeResult, mutation=True, keyed=True)

LOG_LIST = Method(name="log.list", params=LogListParams, result=LogList)
LOG_PAGE = Method(name="log.page", params=LogPageParams, result=BodyPage)
ARTIFACT_LIST = Method(name="artifact.list", params=ArtifactListParams, result=ArtifactList)
ARTIFACT_PAGE = Method(name="artifact.page", params=ArtifactPageParams, result=BodyPage)
CODE_LIST = Method(name="code.list", params=CodeListParams, result=CodeList)
CODE_PAGE = Method(name="code.page", params=CodePageParams, result=BodyPage)
CODE_DIFF = Method(name="code.diff", params=CodeDiffParams, result=BodyPage)

SUBSCRIBE = Method(name="subscribe", params=SubscribeParams, result=Subscribed)
UNSUBSCRIBE = Method(name="unsubscribe", params=UnsubscribeParams, result=Nothing)
OUTPUT_FOLLOW = Method(name="output.follow", params=OutputFollowParams, result=Following)

STREAMING = frozenset({SUBSCRIBE.name, UNSUBSCRIBE.name, OUTPUT_FOLLOW.name})

_ALL: tuple[Method[object, object], ...] = (
    PING,
    DAEMON_STATUS,
    DAEMON_STOP,
    RUN_SUBMIT,
    RUN_LIST,
    RUN_SHOW,
    RUN_STEPS,
    RUN_WHY,
    RUN_CANCEL,
    RUN_RESUME,
    RUN_MERGE,
    LOG_LIST,
    LOG_PAGE,
    ARTIFACT_LIST,
    ARTIFACT_PAGE,
    CODE_LIST,
    CODE_PAGE,
    CODE_DIFF,
    SUBSCRIBE,
    UNSUBSCRIBE,
    OUTPUT_FOLLOW,
)

METHODS: Mapping[str, Method[object, object]] = {each.name: each for each in _ALL}
