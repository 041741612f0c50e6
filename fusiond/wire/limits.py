"""Bounds of the control protocol, each in one place. Sizes in bytes, times in microseconds."""

LENGTH_PREFIX_BYTES = 4

REQUEST_BYTES = 256 * 1024
"""A larger request is refused from its length prefix."""

FRAME_BYTES = 1024 * 1024
"""No frame is larger, in either direction."""

PAGE_BYTES = 256 * 1024
"""The largest page of a log, an artifact or a file; the default too."""

LIST_ROWS = 1_000
"""The most runs that one `run.list` returns."""

STEP_ROWS = 1_000
"""The most steps that one `run.steps` returns; fewer when they would not fit into a frame."""

PATH_BYTES = 4_096
SEARCH_PATH_CHARS = 16_384
TEXT_CHARS = 4_096
NAME_CHARS = 255
INPUTS = 256

KEY_CHARS = 64
"""Length of a client-made key of a mutation."""

MESSAGE_CHARS = 8_192
"""An error's text is cut here."""

ERROR_FIELDS = 64
FIELD_CHARS = 1_024

HELLO_US = 5_000_000
"""How long a new connection may take to say hello."""

REQUEST_US = 60_000_000
"""How long one request may take before the client is told to try again."""

REPLAY_POSITIONS = 200_000
"""A subscriber further behind than this gets a snapshot notice instead of a replay."""

OUTPUT_LAG_BYTES = 4 * 1024 * 1024
"""A follower of output further behind than this is moved forward, and told of the gap."""

OUTPUT_KEPT_BYTES = 256 * 1024
"""How much of the newest output such a follower still gets."""
