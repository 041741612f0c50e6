"""Following steps over lost connections, blocking, with plain mappings.

Owns position and epoch between two connections, so that whoever iterates sees
every step once. How to connect, or to start a daemon, is the caller's.
"""

import time
from collections.abc import Callable, Iterator

from fusiond.client.blocking import Connection
from fusiond.codec.packed import Plain
from fusiond.domain.errors import TryAgainError, UnreachableError
from fusiond.wire import envelope

GIVE_UP_S = 30.0
"""How long to try to reconnect before the loss is reported."""

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


class StepFollower:
    """Follows the steps of one run, or of all, from a position on.

    Args:
        connect: makes a greeted connection; raises UnreachableError where there is none.
        epoch: of the ledger that `position` is of; None when nothing is known yet.
        position: the last position that is known.
        run: whole id of the only run to follow.
        give_up_s: how long a lost daemon is tried again.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        epoch: str | None = None,
        position: int = 0,
        run: str | None = None,
        give_up_s: float = GIVE_UP_S,
    ) -> None:
        self._connect = connect
        self._run = run
        self._give_up_s = give_up_s
        self.epoch = epoch
        self.position = position

    def __iter__(self) -> Iterator[dict[str, Plain]]:
        """Yield pushes of the kinds step, state and snapshot, for ever.

        After a `snapshot` everything known is void: read it anew. A `state` with
        `live` may come again after a reconnect.

        Raises:
            UnreachableError: the daemon stayed away.
            FusionError: the daemon refused the subscription.
        """
        while True:
            with self._reconnected() as connection:
                try:
                    yield from self._pushes(connection)
                except UnreachableError:
                    continue

    def _reconnected(self) -> Connection:
        end, pause = time.monotonic() + self._give_up_s, _FIRST_PAUSE_S
        while True:
            try:
                return self._connect()
            except (UnreachableError, TryAgainError):
                if time.monotonic() + pause > end:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _pushes(self, connection: Connection) -> Iterator[dict[str, Plain]]:
        params: dict[str, object] = {"from_position": self.position}
        if self.epoch is not None:
            params["epoch"] = self.epoch
        if self._run is not None:
            params["run"] = self._run
        subscribed = connection.call("subscribe", params)
        if self.epoch is None:
            self.epoch = envelope.text(subscribed, "epoch", most=255)
        for push in connection.pushes(envelope.number(subscribed, "subscription")):
            if push["kind"] == "state" and push.get("state") == "ended":
                return
            if push["kind"] == "snapshot":
                self.epoch = envelope.text(push, "epoch", most=255)
            yield push
            # After the yield: what the caller has taken is known, what it has not is asked for again.
            position = push.get("position")
            if isinstance(position, int):
                self.position = max(position, 0)
