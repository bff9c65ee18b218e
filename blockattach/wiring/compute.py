"""The compute API and its agents: a consumer, which stands on the bus and on block storage's API
alone.
"""
from concurrent import futures
from typing import NamedTuple

import requests
from oslo_config import cfg

from blockattach import clock as clocks
from blockattach import errors
from blockattach.compute import agent
from blockattach.compute import conductor
from blockattach.compute import interface
from blockattach.compute import notices
from blockattach.compute import records
from blockattach.compute import storage
from blockattach.compute.acts import moves
from blockattach.compute.acts import simple
from blockattach.compute.acts import work
from blockattach.compute.api import app
from blockattach.compute.api import services
from blockattach.compute.hosts import base as hosts
from blockattach.compute.store import store
from blockattach.conf import api as api_conf
from blockattach.conf import compute as compute_conf
from blockattach.conf import core as core_conf
from blockattach.conf import database as database_conf
from blockattach.http import middleware
from blockattach.policy import enforcer
from blockattach.rpc import attachments as attachments_rpc
from blockattach.rpc import notifications
from blockattach.rpc import serving
from blockattach.rpc import transport
from blockattach.telemetry import acts
from blockattach.wiring import authentication


class Api(NamedTuple):
    """A compute API, put together."""

    application: middleware.Wsgi
    conductor: conductor.Conductor
    server: serving.Server
    store: store.Store


def flavors(settings: compute_conf.ComputeSettings) -> dict[str, records.Flavor]:
    """The flavors as they are configured, by id.

    :raises ConfigurationError: one is none
    """
    found = {}
    for number, text in enumerate(settings.flavors, 1):
        name, *sizes = text.split(':')
        if len(sizes) != 3 or not all(size.isdigit() for size in sizes):
            raise errors.ConfigurationError(
                reason=f'cannot use flavor {text}: it is name:vcpus:MiB:GiB')
        found[str(number)] = records.Flavor(str(number), name, *map(int, sizes))
    return found


def open_store(conf: cfg.ConfigOpts, clock: clocks.Clock) -> store.Store:
    """The database of servers, with its tables."""
    settings = compute_conf.settings(conf)
    url = settings.connection or (
        f'sqlite:///{core_conf.settings(conf).state_path}/compute.sqlite')
    opened = store.Store(database_conf.DatabaseSettings(url), clock, settings.down_seconds)
    opened.prepare()
    return opened


def build_api(conf: cfg.ConfigOpts, bus: transport.Bus, opened: store.Store,
              policy: enforcer.Enforcer, executor: futures.Executor, clock: clocks.Clock,
              telemetry: acts.Telemetry, name: str, owner: str,
              notifier: notifications.Notifications,
              outgoing: requests.Session | None = None) -> Api:
    """Put a compute API together.

    :param executor: does the acts
    :param name: of its host, on the bus
    :param owner: the name of this process instance
    :param notifier: hears of acts
    :param outgoing: what carries the requests to block storage; None: connections of its own
    :raises ConfigurationError: something is not configured rightly
    """
    settings, asked = compute_conf.settings(conf), compute_conf.storage_settings(conf)
    volumes = storage.HttpVolumes(asked, outgoing)
    attachments: storage.Attachments = storage.HttpAttachments(asked, outgoing)
    if asked.transport == 'bus':
        attachments = storage.BusAttachments(attachments_rpc.AttachmentsClient(bus))
    tools = work.Tools(opened, interface.Agents(bus), attachments, volumes, flavors(settings))
    acting = conductor.Conductor(
        tools, {'build': simple.build(clock.utcnow), **simple.PLANS, **moves.PLANS}, executor,
        owner, settings.lease_seconds, notices.ServerNotifications(notifier))
    handed = services.ComputeServices(
        database=opened, policy=policy, conductor=acting, attachments=attachments,
        volumes=volumes, flavors=tools.flavors, clock=clock)
    application = app.build_app(
        handed, authentication.build_authentication(conf, api_conf.settings(conf)),
        settings.public_endpoint, telemetry)
    return Api(application, acting, bus.server(acting, name), opened)


class Agent(NamedTuple):
    """An agent, put together."""

    server: serving.Server
    reporter: agent.Reporter


def build_agent(conf: cfg.ConfigOpts, bus: transport.Bus, host: hosts.Host, name: str) -> Agent:
    """Put the agent of a host together.

    :param name: of the host
    """
    settings = compute_conf.settings(conf)
    return Agent(bus.server(agent.AgentEndpoint(host), name),
                 agent.Reporter(name, settings.kind, host, interface.conductor(bus),
                                settings.agent_version))
