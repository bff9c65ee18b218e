"""What the handlers may use: handed to them by the dispatcher, put together by the wiring."""
import dataclasses
from collections.abc import Callable

from blockattach import clock
from blockattach import context
from blockattach.conf import api as api_conf
from blockattach.conf import resource_filters
from blockattach.control import attachments
from blockattach.control import explaining
from blockattach.control import extending
from blockattach.control import images
from blockattach.control import legacy
from blockattach.control import log_levels
from blockattach.control import managing
from blockattach.control import moving
from blockattach.control import reconciling
from blockattach.control import reservations
from blockattach.control import snapshots
from blockattach.control import volumes
from blockattach.db import storage_db
from blockattach.policy import enforcer


@dataclasses.dataclass(frozen=True, slots=True)
class ApiServices:
    """Reads go to the database, writes to a control verb, questions of right to the policy."""

    database: storage_db.Database
    policy: enforcer.Enforcer
    attachments: attachments.AttachmentControl
    volumes: volumes.VolumeControl
    extending: extending.ExtendControl
    moving: moving.MoveControl
    snapshots: snapshots.SnapshotControl
    images: images.ImageControl
    managing: managing.ManageControl
    legacy: legacy.LegacyControl
    reservations: reservations.ReservationControl
    explaining: explaining.ExplainControl
    reconciling: reconciling.ReconcileControl
    logs: log_levels.LogControl
    settings: api_conf.ApiSettings
    project_check: Callable[[context.RequestContext, str], None]
    """Raises ProjectNotFound unless the project exists, where that is known."""
    filters: resource_filters.Filters
    default_volume_type: str
    availability_zone: str
    service_down_time: float
    watch_endpoint: str | None
    """Where streams are served, if not here."""
    clock: clock.Clock
