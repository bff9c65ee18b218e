"""What the verbs of an attachment stand on, put together by the wiring."""
import dataclasses

from blockattach.control import backend_calls
from blockattach.control import detach_rule
from blockattach.control import moves
from blockattach.control import repeats
from blockattach.db import engine
from blockattach.telemetry import acts


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """Made once a process."""

    database: engine.Database
    moves: moves.AttachmentMoves
    backend: backend_calls.BackendCalls
    repeats: repeats.Repeats
    rule: detach_rule.DetachRule
    """Who may end an attachment that Nova uses."""
    telemetry: acts.Telemetry = dataclasses.field(default_factory=acts.Telemetry)
