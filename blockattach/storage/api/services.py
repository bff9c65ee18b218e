"""Dependencies of the API handlers, which the dispatcher passes to each handler."""
import dataclasses
from collections.abc import Callable

from blockattach.platform import clock
from blockattach.platform import context
from blockattach.platform.conf import api as api_conf
from blockattach.platform.policy import enforcer
from blockattach.storage.conf import resource_filters
from blockattach.storage.control import attachments
from blockattach.storage.control import explaining
from blockattach.storage.control import images
from blockattach.storage.control import legacy
from blockattach.storage.control import log_levels
from blockattach.storage.control import managing
from blockattach.storage.control import placement
from blockattach.storage.control import reconciling
from blockattach.storage.control import reservations
from blockattach.storage.control import snapshots
from blockattach.storage.control import volumes
from blockattach.storage.db import storage_db


@dataclasses.dataclass(frozen=True, slots=True)
class ApiServices:
    """Dependencies of the API handlers.

    Handlers read and update rows in ``database``, check the authorization with ``policy``, and
    call the control classes for operations that involve other services.
    """

    database: storage_db.Database
    policy: enforcer.Enforcer
    attachments: attachments.AttachmentControl
    volumes: volumes.VolumeControl
    placement: placement.PlacementControl
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
    """Function that raises ProjectNotFound if the project is known not to exist."""
    filters: resource_filters.Filters
    default_volume_type: str
    availability_zone: str
    service_down_time: float
    """Seconds without a heartbeat after which a service counts as down."""
    watch_endpoint: str | None
    """URL of the server to which requests for event streams are redirected.

    The URL is used only if this process serves no streams. Such a process rejects requests for
    event streams if the URL is None.
    """
    clock: clock.Clock
