"""The processes of the consumer: the compute API, and the agent of a host."""
import contextlib
import dataclasses
import os
import socket
import uuid
from collections.abc import Callable
from concurrent import futures

from oslo_config import cfg

from blockattach import periodic
from blockattach.compute.hosts import base as hosts
from blockattach.compute.hosts import fake
from blockattach.compute.store import store
from blockattach.conf import api as api_conf
from blockattach.conf import compute as compute_conf
from blockattach.conf import core as core_conf
from blockattach.conf import health as health_conf
from blockattach.conf import locations
from blockattach.http import health
from blockattach.http import server
from blockattach.policy import enforcer
from blockattach.rpc import notifications
from blockattach.wiring import authentication
from blockattach.wiring import compute
from blockattach.wiring import dependencies
from blockattach.wiring import outside
from blockattach.wiring import processes

_LOOK_SECONDS = 5.0
_PARTS_OF_A_LEASE = 3


class OutsideProcess(processes.ServiceProcess):
    """A process that stands on no database of block storage."""

    def _open(self, starting: contextlib.ExitStack) -> outside.Outside:
        """Make the state folder, and open the bus."""
        core = core_conf.settings(self._conf)
        with locations.named(self._conf, 'DEFAULT', 'state_path'):
            dependencies.make_state_path(core)
        base = outside.open_outside(self._conf, self._name)
        starting.callback(base.close)
        return base


class Closing:
    """A service that only ends something."""

    def __init__(self, end: Callable[[], object]) -> None:
        self._end = end

    def start(self) -> None:
        """It is there."""

    def stop(self) -> None:
        """End it."""
        self._end()


def build_api_services(base: outside.Outside) -> list[processes.Service]:
    """What a compute API consists of.

    :raises ConfigurationError: something is not configured rightly
    """
    settings = compute_conf.settings(base.conf)
    listening = _listen(base.conf, settings)
    try:
        opened = compute.open_store(base.conf, base.clock)
        executor = base.threads.executor('acts', settings.threads, base.telemetry.readings)
        return _of_api(base, settings, listening, opened, executor)
    except BaseException:
        # It has threads, which would keep the process.
        listening.stop()
        raise


def _of_api(base: outside.Outside, settings: compute_conf.ComputeSettings,
            listening: server.Server, opened: store.Store,
            executor: futures.Executor) -> list[processes.Service]:
    with locations.named(base.conf, 'oslo_policy', 'policy_file'):
        policy = enforcer.Enforcer(base.conf, base.clock)
    base.reloads.add(policy.reload)
    name = socket.gethostname()
    built = compute.build_api(
        base.conf, base.bus, opened, policy, executor, base.clock, base.telemetry, name,
        f'{name}.{uuid.uuid4()}', notifications.build(base.conf, f'compute.{name}'))
    health.register(base.conf)
    if listening.secured is not None:
        base.reloads.add(listening.secured.reload)
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
    return [Closing(opened.close), Closing(lambda: executor.shutdown(wait=True)), *looks,
            built.server, listening]


def _listen(conf: cfg.ConfigOpts, settings: compute_conf.ComputeSettings) -> server.Server:
    """Take the address, before there is an application to answer.

    :raises ConfigurationError: it is taken, or not ours, or must not be served so
    """
    api = dataclasses.replace(api_conf.settings(conf), host=settings.host, port=settings.port)
    authentication.check_address(conf, api)
    secured = authentication.build_certificate(conf, api)
    with locations.named(conf, compute_conf.GROUP, 'port'):
        return server.Server(None, api.host, api.port, api.queue, api.max_request_body_size,
                             core_conf.settings(conf).graceful_shutdown_timeout,
                             secured, health.PATHS)


def build_agent_services(base: outside.Outside) -> list[processes.Service]:
    """What the agent of a host consists of.

    :raises ConfigurationError: servers cannot run here
    """
    settings = compute_conf.settings(base.conf)
    host = build_host(base.conf, settings)
    with locations.named(base.conf, compute_conf.GROUP, 'kind'):
        host.check()
    built = compute.build_agent(base.conf, base.bus, host, settings.name)
    return [built.server, periodic.Periodic('report', built.reporter.report,
                                            settings.report_seconds, base.clock,
                                            base.threads.begin)]


def build_host(conf: cfg.ConfigOpts, settings: compute_conf.ComputeSettings) -> hosts.Host:
    """What runs servers here, by the kind that is configured.

    :raises ConfigurationError: it cannot be
    """
    if settings.kind == 'fake':
        return fake.FakeHost(settings.name)
    folder = os.path.join(core_conf.settings(conf).state_path, 'compute', settings.name)
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


def load_api(conf: cfg.ConfigOpts) -> OutsideProcess:
    """The process of a compute API."""
    return OutsideProcess('blockattach-compute-api', conf, build_api_services)


def load_agent(conf: cfg.ConfigOpts) -> OutsideProcess:
    """The process of an agent."""
    return OutsideProcess('blockattach-compute', conf, build_agent_services)
