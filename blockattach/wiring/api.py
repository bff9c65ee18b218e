"""The HTTP application."""
import contextlib
import functools
import ipaddress
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.api import app
from blockattach.api import services as api_services
from blockattach.conf import api as api_conf
from blockattach.conf import nova as nova_conf
from blockattach.conf import scheduler as scheduler_conf
from blockattach.control import attachments
from blockattach.control import backend_calls
from blockattach.control import detach_rule
from blockattach.control import legacy
from blockattach.control import moves
from blockattach.control import parts
from blockattach.control import pool_check
from blockattach.control import repeats
from blockattach.control import reservations
from blockattach.control import reset
from blockattach.control import volume_parts
from blockattach.control import volumes
from blockattach.db import attachment_queries
from blockattach.http import auth
from blockattach.nova import client as nova_client
from blockattach.policy import enforcer
from blockattach.rpc import scheduler as scheduler_rpc
from blockattach.rpc import volume as volume_rpc
from blockattach.wiring import foundation

LOG = oslo_log.getLogger(__name__)

Wsgi = Callable[..., Any]


def warn_if_open(settings: api_conf.ApiSettings) -> None:
    """Say it loudly when strangers could reach an API that believes everybody."""
    if settings.auth_strategy != 'noauth' or settings.host == 'localhost':
        return
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(settings.host).is_loopback:
            return
    LOG.warning('Whoever reaches this address may do everything: requests are not '
                'authenticated%s', log.fields(host=settings.host, auth_strategy='noauth'))


def build_api(base: foundation.Foundation, policy: enforcer.Enforcer) -> Wsgi:
    """Put the API together on a foundation that is open already."""
    settings = api_conf.settings(base.conf)
    volume_services = volume_rpc.VolumeClients(base.bus)
    named = repeats.Repeats(base.database, base.control.idempotency_key_seconds,
                            base.control.backend_seconds, base.clock)
    check = pool_check.PoolCheck(
        base.database, scheduler_conf.settings(base.conf).filters, settings.check_capabilities,
        base.service, base.clock)
    moving = moves.AttachmentMoves(base.database, base.attachment_notifications)
    attaching = attachments.AttachmentControl(parts.Parts(
        database=base.database, moves=moving,
        backend=backend_calls.BackendCalls(moving, volume_services, base.control.backend_seconds),
        repeats=named, rule=build_detach_rule(base)))
    services = api_services.ApiServices(
        database=base.database,
        policy=policy,
        attachments=attaching,
        legacy=legacy.LegacyControl(base.database, attaching),
        reset=reset.ResetControl(base.database, attaching),
        reservations=reservations.ReservationControl(base.database, volume_services,
                                                     base.service.service_down_time),
        volumes=volumes.VolumeControl(volume_parts.VolumeParts(
            base.database, scheduler_rpc.SchedulerClient(base.bus), volume_services,
            base.control, check, named)),
        settings=settings,
        check_database=base.database.answers,
        default_volume_type=base.control.default_volume_type,
        availability_zone=base.control.availability_zone,
        service_down_time=base.service.service_down_time,
        clock=base.clock)
    return app.build_app(services)


def build_detach_rule(base: foundation.Foundation) -> detach_rule.DetachRule:
    """The rule that sends users to Nova, as configured; says so where it cannot be kept.

    :raises ConfigurationError: [keystone_authtoken], which names the roles of services, is unknown
    """
    settings = nova_conf.settings(base.conf)
    keystone = api_conf.settings(base.conf).auth_strategy == 'keystone'
    holds = settings.rule_holds(keystone)
    if keystone and not holds:
        LOG.warning('Users can detach what a server uses: [nova] detach_rule is off')
    elif holds and not settings.configured:
        LOG.warning('Cannot find out who uses an attachment: [nova] has neither auth_url nor '
                    'endpoint_override, so only services detach what a server may use')
    return detach_rule.DetachRule(
        nova_client.NovaClient(settings) if settings.configured else None,
        detach_rule.RuleSettings(holds, _service_roles(base, keystone)),
        functools.partial(attachment_queries.get, base.database))


def _service_roles(base: foundation.Foundation, keystone: bool) -> tuple[str, ...]:
    """The roles that keystonemiddleware accepts; it makes its options known when it is built."""
    if not keystone:
        return auth.SERVICE_ROLES
    try:
        return tuple(base.conf.keystone_authtoken.service_token_roles)
    except cfg.NoSuchOptError as exc:
        raise errors.ConfigurationError(
            reason='cannot serve with [api] auth_strategy = keystone: [keystone_authtoken], '
                   'which says what service tokens count, is not known') from exc
