"""Dependencies of the verbs of a volume, built by the wiring."""
import dataclasses

from blockattach.conf import control as control_conf
from blockattach.control import pool_check
from blockattach.control import repeats
from blockattach.db.engine import engine
from blockattach.rpc import scheduler as scheduler_rpc
from blockattach.rpc import volume as volume_rpc
from blockattach.telemetry import acts


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeParts:
    """One for each process."""

    database: engine.Database
    scheduler: scheduler_rpc.SchedulerInterface
    volume_services: volume_rpc.VolumeClients
    settings: control_conf.ControlSettings
    check: pool_check.PoolCheck
    repeats: repeats.Repeats
    telemetry: acts.Telemetry = dataclasses.field(default_factory=acts.Telemetry)
