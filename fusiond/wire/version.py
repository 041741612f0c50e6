"""The protocol's version and what two versions may do with each other.

- Another **major**: hello is refused. Nothing else is promised.
- A newer **minor** adds optional fields, methods, push kinds and error codes; it never changes
  or removes one.
- **Reads** are tolerant: a client ignores result fields, push kinds and error codes that it does
  not know, so an older client works with a newer daemon.
- **Parameters** are strict in both directions of time: a field or a method that the daemon does
  not know is an error, never ignored.
- **Mutations** are strict altogether: a client whose minor is newer than the daemon's may read,
  and may stop the daemon, but may not make it act on words that may mean something new.
"""

from fusiond.domain.errors import UnsupportedError

PROTOCOL_MAJOR = 1
PROTOCOL_MINOR = 0


def check_major(theirs: int, whose: str, cure: str) -> None:
    """Refuse another major version.

    Args:
        theirs: the other side's major version.
        whose: names the other side, such as `the daemon`.
        cure: what the person should do.

    Raises:
        UnsupportedError: the versions cannot talk.
    """
    if theirs != PROTOCOL_MAJOR:
        raise UnsupportedError(
            f"{whose} speaks protocol {theirs}", expected=f"protocol {PROTOCOL_MAJOR}", cure=cure
        )


def check_mutation(client_minor: int) -> None:
    """Refuse a mutation from a client that is newer than this daemon.

    Raises:
        UnsupportedError: with the cure, since this is what an upgrade looks like.
    """
    if client_minor > PROTOCOL_MINOR:
        raise UnsupportedError(
            f"this client speaks protocol {PROTOCOL_MAJOR}.{client_minor}, the running daemon"
            f" {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}",
            expected="a daemon at least as new as the client for anything but reading",
            cure="stop the old daemon with `fusion daemon stop`; the next command starts the new one",
        )
