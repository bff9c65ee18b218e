"""Builder of the agent of a compute host, which runs servers for the compute API.

Every host runs an agent, which must take little memory. This module therefore imports only the
modules that the agent needs.
"""
import os
from concurrent import futures
from typing import NamedTuple

from oslo_config import cfg

from blockattach.compute import agent
from blockattach.compute import conf as compute_conf
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
    """RPC server and reporter of the agent of a host."""

    server: serving.Server
    reporter: agent.Reporter


def build_agent(conf: cfg.ConfigOpts, bus: transport.Bus, host: hosts.Host, name: str,
                executor: futures.Executor) -> Agent:
    """Build the agent of a host.

    :param host: host driver
    :param name: name of the host
    :param executor: threads in which several servers are created in parallel
    """
    settings = compute_conf.settings(conf)
    # Servers of the fake driver end with the agent, so no lease must survive its restart.
    leases = None if settings.kind == 'fake' else f'{_folder(conf, name)}.leases.json'
    endpoint = agent.AgentEndpoint(host, executor, agent.Fence(leases))
    return Agent(bus.server(endpoint, name),
                 agent.Reporter(name, settings.kind, endpoint.reported, interface.conductor(bus),
                                settings.agent_version))


def build_services(base: outside.Outside) -> list[processes.Service]:
    """Build the services of an agent process.

    :raises ConfigurationError: this host cannot run servers
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
    """Build the configured host driver, which runs servers on this host.

    :raises ConfigurationError: the options of the driver cannot be used
    """
    if settings.kind == 'fake':
        return fake.FakeHost(settings.name)
    folder = _folder(conf, settings.name)
    # Only the configured driver is imported.
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
    return os.path.join(core_conf.settings(conf).state_path, 'compute', name)
