"""Container of the dependencies that operations on volumes and snapshots share."""
import dataclasses

from blockattach.platform.telemetry import acts
from blockattach.storage.conf import control as control_conf
from blockattach.storage.control import pool_check
from blockattach.storage.control import repeats
from blockattach.storage.db import storage_db
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.rpc import volume as volume_rpc


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeParts:
    """Dependencies of the operations on volumes and snapshots in one process."""

    database: storage_db.Database
    scheduler: scheduler_rpc.SchedulerInterface
    volume_services: volume_rpc.VolumeClients
    settings: control_conf.ControlSettings
    check: pool_check.PoolCheck
    repeats: repeats.Repeats
    telemetry: acts.Telemetry = dataclasses.field(default_factory=acts.Telemetry)
