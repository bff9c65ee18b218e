"""The agent of a host, which runs servers as the compute API asks for it.

There is one on every host, so it loads no more than that takes.
"""
import os
from concurrent import futures
from typing import NamedTuple

from oslo_config import cfg

from blockattach.compute import agent
from blockattach.compute import conf as compute_conf
from blockattach.compute import fencing
from blockattach.compute import interface
from blockattach.compute.hosts import base as hosts
from blockattach.compute.hosts import fake
from blockattach.platform import periodic
from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import locations
from blockattach.platform.rpc import serving
from blockattach.platform.rpc import transport
from blockattach.wiring import outside
from blockattach.wiring import processes


class Agent(NamedTuple):
    """An agent, put together."""

    server: serving.Server
    reporter: agent.Reporter


def build_agent(conf: cfg.ConfigOpts, bus: transport.Bus, host: hosts.Host, name: str,
                executor: futures.Executor) -> Agent:
    """Put the agent of a host together.

    :param name: of the host
    :param executor: does several acts side by side
    """
    settings = compute_conf.settings(conf)
    leases = None if settings.kind == 'fake' else f'{_folder(conf, name)}.leases.json'
    endpoint = agent.AgentEndpoint(host, executor, fencing.Fence(leases))
    return Agent(bus.server(endpoint, name),
                 agent.Reporter(name, settings.kind, endpoint.reported, interface.conductor(bus),
                                settings.agent_version))


def build_services(base: outside.Outside) -> list[processes.Service]:
    """What the agent of a host consists of.

    :raises ConfigurationError: servers cannot run here
    """
    settings = compute_conf.settings(base.conf)
    host = build_host(base.conf, settings)
    with locations.named(base.conf, compute_conf.GROUP, 'kind'):
        host.check()
    executor = base.threads.executor('acts', settings.threads, base.telemetry.readings)
    built = build_agent(base.conf, base.bus, host, settings.name, executor)
    return [built.server, periodic.Periodic('report', built.reporter.report,
                                            settings.report_seconds, base.clock,
                                            base.threads.begin)]


def build_host(conf: cfg.ConfigOpts, settings: compute_conf.ComputeSettings) -> hosts.Host:
    """What runs servers here, by the kind that is configured.

    :raises ConfigurationError: it cannot be
    """
    if settings.kind == 'fake':
        return fake.FakeHost(settings.name)
    folder = _folder(conf, settings.name)
    # Each kind is loaded only where it is used.
    if settings.kind == 'qemu':
        from blockattach.compute.hosts import qemu

        return qemu.QemuHost(qemu.QemuSettings(
            state_dir=folder, host=settings.name, accelerator=settings.accelerator,
            kernel=settings.kernel, initrd=settings.initrd, append=settings.append,
            address=settings.address, release_seconds=settings.release_seconds))
    from blockattach.compute.hosts.local import choice
    from blockattach.compute.hosts.local import host

    return host.LocalHost(settings.name, folder, choice.connector(
        settings.connector, settings.name, folder))


def _folder(conf: cfg.ConfigOpts, name: str) -> str:
    """Where a host keeps what it must find again."""
    return os.path.join(core_conf.settings(conf).state_path, 'compute', name)
