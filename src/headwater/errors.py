"""Every exception headwater raises on purpose, in one tree.

Each message is one or more clear sentences: the place, what came, what was expected. The command line prints the
message and exits with status 2; a caller in Python catches :class:`HeadwaterError`.
"""

from __future__ import annotations

from collections.abc import Sequence


class HeadwaterError(Exception):
    """The root: anything a user's input or request can cause."""


class ExpressionError(HeadwaterError):
    """An expression that the grammar refuses; ``position`` counts characters from 1."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} (at character {position})")
        self.position = position


class ProblemError(HeadwaterError):
    """A problem that is not one: everything found wrong with it, a line each in ``complaints``."""

    def __init__(self, complaints: str | Sequence[str]) -> None:
        self.complaints = (complaints,) if isinstance(complaints, str) else tuple(complaints)
        super().__init__("\n".join(self.complaints))


class ResultsError(ProblemError):
    """Results that cannot be written or read back; the message says what is kept and how to go on."""


class ClusterError(HeadwaterError):
    """A Dask cluster that is missing, cannot be reached or was lost; the message says what is kept and how to go on."""


class RewardError(HeadwaterError):
    """A reward that the named arm cannot pay for any latent value."""


class SizeError(HeadwaterError):
    """Work that would need listing too many points; the message says how many and what to do instead."""


class ModelWarning(UserWarning):
    """Rewards that no law of X explains: the problem is wrong about an arm."""
