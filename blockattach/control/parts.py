"""Dependencies of the verbs of an attachment, built by the wiring."""
import dataclasses

from blockattach.control import backend_calls
from blockattach.control import detach_rule
from blockattach.control import moves
from blockattach.control import repeats
from blockattach.db import engine
from blockattach.telemetry import acts


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """One for each process."""

    database: engine.Database
    moves: moves.AttachmentMoves
    backend: backend_calls.BackendCalls
    repeats: repeats.Repeats
    rule: detach_rule.DetachRule
    """Whether an attachment that Nova uses may be ended."""
    telemetry: acts.Telemetry = dataclasses.field(default_factory=acts.Telemetry)
