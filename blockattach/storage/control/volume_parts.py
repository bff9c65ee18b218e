"""Dependencies of the verbs of a volume, built by the wiring."""
import dataclasses

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform.telemetry import acts
from blockattach.storage.conf import control as control_conf
from blockattach.storage.control import pool_check
from blockattach.storage.control import repeats
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.domain import records
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.rpc import volume as volume_rpc

LOG = oslo_log.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeParts:
    """One for each process."""

    database: storage_db.Database
    scheduler: scheduler_rpc.SchedulerInterface
    volume_services: volume_rpc.VolumeClients
    settings: control_conf.ControlSettings
    check: pool_check.PoolCheck
    repeats: repeats.Repeats
    telemetry: acts.Telemetry = dataclasses.field(default_factory=acts.Telemetry)

    def start_work(self, caller: context.RequestContext, claim: records.Claim,
                   host: str | None) -> None:
        """Ask a manager for work that is written down; what cannot be sent is found by it."""
        assert host is not None
        try:
            self.volume_services.on(host).start_work(
                caller, claim.noun, claim.verb, claim.resource_id, claim.generation)
        except errors.ServiceUnreachable as exc:
            LOG.warning('Failed to call the volume service, will retry soon%s', log.fields(
                work=claim.name, resource_id=claim.resource_id, reason=exc))
            work.hasten(self.database, claim)
