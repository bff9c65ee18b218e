"""Builder of the WSGI application of the Block Storage API."""
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any

from blockattach.platform.conf import api as api_conf
from blockattach.platform.conf import health as health_conf
from blockattach.platform.conf import locations
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.http import dispatch
from blockattach.platform.http import health
from blockattach.platform.http import queueing
from blockattach.platform.policy import enforcer
from blockattach.platform.rpc import processes
from blockattach.storage.api import app
from blockattach.storage.api import attachment_map
from blockattach.storage.api import routes
from blockattach.storage.api import services as api_services
from blockattach.storage.conf import attachment_map as map_conf
from blockattach.storage.conf import glance as glance_conf
from blockattach.storage.conf import images as images_conf
from blockattach.storage.conf import resource_filters
from blockattach.storage.conf import scheduler as scheduler_conf
from blockattach.storage.conf import service_user
from blockattach.storage.conf import watch as watch_conf
from blockattach.storage.control import explaining
from blockattach.storage.control import images
from blockattach.storage.control import legacy
from blockattach.storage.control import log_levels
from blockattach.storage.control import managing
from blockattach.storage.control import placement
from blockattach.storage.control import pool_check
from blockattach.storage.control import reconciling
from blockattach.storage.control import reservations
from blockattach.storage.control import snapshots
from blockattach.storage.control import volume_parts
from blockattach.storage.control import volumes
from blockattach.storage.db.services import services as db_services
from blockattach.storage.domain import binaries
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.rpc import volume as volume_rpc
from blockattach.wiring import authentication
from blockattach.wiring import control
from blockattach.wiring import dependencies
from blockattach.wiring import rules as policy_rules

if TYPE_CHECKING:
    from blockattach.storage.images import client

Wsgi = Callable[..., Any]


def load() -> None:
    """Compile the JSON schemas of all requests. Processes that are forked later share them."""
    for row in routes.operations():
        _ = row.checkers


def build_serving(base: dependencies.Dependencies) -> Wsgi:
    """Build the WSGI application of the API with health checks. SIGHUP reloads its policy.

    :raises ConfigurationError: the policy files, the file of resource filters, [healthcheck],
        [nova] or authentication cannot be used
    """
    with locations.named(base.conf, 'oslo_policy', 'policy_file'):
        rules = enforcer.Enforcer(base.conf, policy_rules.list_rules(), base.clock)
    base.reloads.add(rules.reload, rules.wrong)
    base.monitor.add('backends', functools.partial(_backends, base))
    health.register(base.conf)
    locations.check_values(base.conf, [health.GROUP])
    with locations.named(base.conf, health.GROUP, 'backends'):
        return health.with_health(
            build_api(base, rules), base.conf, base.monitor,
            health_conf.settings(base.conf, '').detailed_source_ranges)


def _backends(base: dependencies.Dependencies) -> str | None:
    """Return the reason why the health check of backends fails, or None if it succeeds.

    The check fails if there are enabled backends, and none of them sends heartbeats.
    """
    used = [service for service in db_services.list_all(
        base.database, base.service.service_down_time, binary=binaries.VOLUME)
        if not service.disabled]
    if not used or any(service.up for service in used):
        return None
    return f'no backend is up: {", ".join(service.host for service in used)}'


def build_api(base: dependencies.Dependencies, policy: enforcer.Enforcer) -> Wsgi:
    """Build the WSGI application of the API without health checks.

    :raises ConfigurationError: authentication, [nova] or the file of resource filters cannot be
        used
    """
    return build_application(base, build_handling(base, policy))


def build_handling(base: dependencies.Dependencies,
                   policy: enforcer.Enforcer) -> api_services.ApiServices:
    """Build the dependencies of the request handlers.

    :raises ConfigurationError: [nova], an option for Keystone or the file of resource filters
        cannot be used
    """
    settings = api_conf.settings(base.conf)
    volume_services = volume_rpc.VolumeClients(base.bus)
    named = control.build_repeats(base)
    check = pool_check.PoolCheck(
        base.database, scheduler_conf.settings(base.conf).filters, settings.check_capabilities,
        base.service, base.clock)
    attaching = control.build_attachments(base, volume_services, named)
    parts = volume_parts.VolumeParts(base.database, scheduler_rpc.client(base.bus),
                                     volume_services, base.control, check, named, base.telemetry)
    return api_services.ApiServices(
        database=base.database,
        policy=policy,
        attachments=attaching,
        legacy=legacy.LegacyControl(attaching),
        explaining=explaining.ExplainControl(base.database, volume_services),
        reconciling=reconciling.ReconcileControl(base.database, volume_services,
                                                 base.service.service_down_time),
        reservations=reservations.ReservationControl(base.database, volume_services,
                                                     base.service.service_down_time),
        logs=log_levels.LogControl(base.database,
                                   functools.partial(processes.client, base.bus),
                                   base.service.host, base.service.service_down_time),
        volumes=volumes.VolumeControl(parts),
        images=_build_image_control(base, parts),
        placement=placement.PlacementControl(parts, base.service.service_down_time),
        snapshots=snapshots.SnapshotControl(parts),
        managing=managing.ManageControl(parts, base.service.service_down_time),
        settings=settings,
        project_check=authentication.build_project_check(base.conf, settings),
        filters=resource_filters.settings(base.conf),
        default_volume_type=base.control.default_volume_type,
        availability_zone=base.control.availability_zone,
        service_down_time=base.service.service_down_time,
        watch_endpoint=watch_conf.settings(base.conf).public_endpoint,
        clock=base.clock)


def build_application(base: dependencies.Dependencies, services: api_services.ApiServices,
                      check: dispatch.Check | None = None) -> Wsgi:
    """Build the WSGI application with all middleware, and with the attachment map if enabled.

    :param services: dependencies of the request handlers
    :param check: function that checks each response in tests, or None
    :raises ConfigurationError: authentication cannot be used
    """
    settings = services.settings
    authenticated = authentication.build_authentication(
        base.conf, settings, base.reloads.watch)
    with locations.named(base.conf, api_conf.KEYSTONE_GROUP):
        application = app.build_app(
            services, authenticated, telemetry=base.telemetry,
            admission=[queueing.admitting(base.admission, _call_seconds(base))],
            outer=authentication.build_outer_middleware(base.conf, settings), check=check)
    if map_conf.settings(base.conf).enabled:
        return attachment_map.with_map(application)
    return application


def _call_seconds(base: dependencies.Dependencies) -> float:
    """Return the time in seconds, from the arrival of a request, until its RPC calls time out."""
    # After the maximum time in the queue, a request has at least the same time for its RPC calls.
    return max(rpc_conf.settings(base.conf).call_timeout,
               2 * api_conf.queue_settings(base.conf).timeout)


def _build_image_control(base: dependencies.Dependencies,
                         parts: volume_parts.VolumeParts) -> images.ImageControl:
    return images.ImageControl(parts, _user_images(base), images_conf.settings(base.conf))


def _user_images(base: dependencies.Dependencies) -> 'client.UserImages | None':
    """Return a Glance client that uses the tokens of callers, or None without Glance."""
    settings = glance_conf.settings(base.conf)
    if not settings.configured:
        return None
    # Imported only if needed, because keystoneauth is large.
    from blockattach.platform import identity
    from blockattach.storage.images import client

    service = service_user.settings(base.conf)
    return client.UserImages(settings, base.outgoing,
                             None if service is None else identity.own(service))
