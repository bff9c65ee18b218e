"""Builder of the compute API, which attaches volumes over the bus or the Block Storage API."""
import dataclasses
import re
import socket
import uuid
from collections.abc import Callable
from concurrent import futures
from typing import NamedTuple

import requests
from oslo_config import cfg

from blockattach.compute import conductor
from blockattach.compute import conf as compute_conf
from blockattach.compute import interface
from blockattach.compute import notices
from blockattach.compute import records
from blockattach.compute import storage
from blockattach.compute.acts import moves
from blockattach.compute.acts import simple
from blockattach.compute.acts import work
from blockattach.compute.api import app
from blockattach.compute.api import services
from blockattach.compute.store import store
from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform import periodic
from blockattach.platform.conf import api as api_conf
from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import health as health_conf
from blockattach.platform.conf import locations
from blockattach.platform.http import health
from blockattach.platform.http import middleware
from blockattach.platform.policy import enforcer
from blockattach.platform.rpc import notifications
from blockattach.platform.rpc import serving
from blockattach.platform.rpc import transport
from blockattach.platform.telemetry import acts
from blockattach.platform.webserver import server
from blockattach.storage.rpc import attachments as attachments_rpc
from blockattach.wiring import authentication
from blockattach.wiring import compute_store
from blockattach.wiring import outside
from blockattach.wiring import processes
from blockattach.wiring import rules as policy_rules

_FLAVOR = re.compile(r'((?P<id>[\w.-]{1,255}):)?(?P<name>[^:]+):(?P<vcpus>\d+):'
                     r'(?P<memory>\d+):(?P<disk>\d+)', re.ASCII)
_LOOK_SECONDS = 5.0
# A lease outlives two renewals that fail.
_PARTS_OF_A_LEASE = 3


class Api(NamedTuple):
    """Application, conductor, RPC server and database of a compute API process."""

    application: middleware.Wsgi
    conductor: conductor.Conductor
    server: serving.Server
    store: store.Store


def flavors(settings: compute_conf.ComputeSettings) -> dict[str, records.Flavor]:
    """Return the configured flavors by id.

    A flavor without a configured id gets its position in the list as id, starting at 1.

    :raises ConfigurationError: a flavor is malformed, or has the id or name of another flavor
    """
    by_id: dict[str, records.Flavor] = {}
    for number, text in enumerate(settings.flavors, 1):
        match = _FLAVOR.fullmatch(text)
        if match is None:
            raise errors.ConfigurationError(
                reason=f'cannot use flavor {text}: the format is id:name:vcpus:MiB:GiB')
        flavor = records.Flavor(match['id'] or str(number), match['name'], *(
            int(match[size]) for size in ('vcpus', 'memory', 'disk')))
        for other in by_id.values():
            if flavor.id == other.id or flavor.name == other.name:
                raise errors.ConfigurationError(reason=(
                    f'cannot use flavor {text} with id {flavor.id}: flavor {other.name} with id '
                    f'{other.id} has the same id or name'))
        by_id[flavor.id] = flavor
    return by_id


def build_api(conf: cfg.ConfigOpts, bus: transport.Bus, opened: store.Store,
              policy: enforcer.Enforcer, executor: futures.Executor, clock: clocks.Clock,
              telemetry: acts.Telemetry, name: str, owner: str,
              notifier: notifications.Notifications,
              outgoing: requests.Session | None = None) -> Api:
    """Build the application, the conductor and the RPC server of a compute API process.

    :param opened: database of the compute service
    :param executor: threads that execute server actions
    :param name: host name under which the RPC server is registered
    :param owner: name of this process instance, as the owner of server actions
    :param notifier: sender of the notifications about server actions
    :param outgoing: HTTP session for requests to block storage, or None to create sessions
    :raises ConfigurationError: an option is invalid
    """
    settings, storage_settings = compute_conf.settings(conf), compute_conf.storage_settings(conf)
    served = api_conf.settings(conf)
    volumes = storage.HttpVolumes(storage_settings, outgoing)
    attachments: storage.Attachments = storage.HttpAttachments(storage_settings, outgoing)
    if storage_settings.transport == 'bus':
        attachments = storage.BusAttachments(attachments_rpc.AttachmentsClient(bus))
    with locations.named(conf, compute_conf.GROUP, 'flavors'):
        offered = flavors(settings)
    tools = work.Tools(opened, interface.Agents(bus), attachments, volumes, clock)
    acting = conductor.Conductor(
        tools, {'build': simple.build(clock.utcnow), **simple.PLANS, **moves.PLANS}, executor,
        owner, settings.lease_seconds, notices.ServerNotifications(notifier))
    handed = services.ComputeServices(
        database=opened, policy=policy, conductor=acting, attachments=attachments,
        volumes=volumes, flavors=offered, clock=clock)
    application = app.build_app(
        handed, authentication.build_authentication(conf, served), settings.public_endpoint,
        telemetry, authentication.build_outer_middleware(conf, served))
    return Api(application, acting, bus.server(acting, name), opened)


class Closing:
    """Service that calls a function when it is stopped, to release a resource."""

    def __init__(self, end: Callable[[], object]) -> None:
        self._end = end

    def start(self) -> None:
        """Do nothing, because the resource is already in use."""

    def stop(self) -> None:
        self._end()


def build_services(base: outside.Outside) -> list[processes.Service]:
    """Build the services of a compute API process.

    :raises ConfigurationError: an option is invalid, or the address or the database cannot be used
    """
    settings = compute_conf.settings(base.conf)
    listening = _listen(base.conf, settings)
    try:
        opened = compute_store.open_store(base.conf, base.clock)
        executor = base.threads.executor('acts', settings.threads, base.telemetry.readings)
        return _of_api(base, settings, listening, opened, executor)
    except BaseException:
        # The server has threads, which would keep the process running.
        listening.stop()
        raise


def _of_api(base: outside.Outside, settings: compute_conf.ComputeSettings,
            listening: server.Server, opened: store.Store,
            executor: futures.Executor) -> list[processes.Service]:
    with locations.named(base.conf, 'oslo_policy', 'policy_file'):
        policy = enforcer.Enforcer(base.conf, policy_rules.list_rules(), base.clock)
    base.reloads.add(policy.reload, policy.wrong)
    name = socket.gethostname()
    built = build_api(
        base.conf, base.bus, opened, policy, executor, base.clock, base.telemetry, name,
        f'{name}.{uuid.uuid4()}', notifications.build(base.conf, f'compute.{name}'))
    health.register(base.conf)
    if listening.secured is not None:
        base.reloads.add(listening.secured.reload, listening.secured.wrong)
    listening.telemetry = base.telemetry
    listening.application = health.with_health(
        built.application, base.conf, base.monitor,
        health_conf.settings(base.conf, '').detailed_source_ranges)
    looks = [
        periodic.Periodic('acts', built.conductor.look, _LOOK_SECONDS, base.clock,
                          base.threads.begin),
        periodic.Periodic('leases', built.conductor.renew,
                          settings.lease_seconds / _PARTS_OF_A_LEASE, base.clock,
                          base.threads.begin)]
    # Services stop in reverse order: requests and messages end first, and the database is closed
    # when all operations have ended.
    return [Closing(opened.close), Closing(lambda: executor.shutdown(wait=True)), *looks,
            built.server, listening]


def _listen(conf: cfg.ConfigOpts, settings: compute_conf.ComputeSettings) -> server.Server:
    """Return a server that listens on the address of the compute API, without its application.

    :raises ConfigurationError: the TLS certificate cannot be used, or the address is in use, does
        not belong to this host, or must not be served without authentication
    """
    api = dataclasses.replace(api_conf.settings(conf), host=settings.host, port=settings.port)
    authentication.check_address(conf, api)
    secured = authentication.build_certificate(conf, api)
    with locations.named(conf, compute_conf.GROUP, 'port'):
        return server.Server(None, api.host, api.port, api.queue, api.max_request_body_size,
                             core_conf.settings(conf).graceful_shutdown_timeout,
                             secured, health.PATHS)
