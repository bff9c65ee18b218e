#!/usr/bin/env python3
"""Print the page of RPC interfaces, and tables of methods, failed calls and RabbitMQ defaults."""
import sys

import rst
from blockattach.compute import interface as compute
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import ends
from blockattach.platform.rpc import processes
from blockattach.platform.rpc import rabbit
from blockattach.storage.rpc import attachments
from blockattach.storage.rpc import history
from blockattach.storage.rpc import scheduler
from blockattach.storage.rpc import volume

INTERFACES = (attachments.AttachmentsInterface, compute.AgentInterface,
              compute.ConductorInterface, processes.ProcessInterface,
              scheduler.SchedulerInterface, volume.VolumeInterface)

_OPTIONS = {
    contract.Timeout.SHORT: 'short_call_timeout',
    contract.Timeout.NORMAL: 'call_timeout',
    contract.Timeout.LONG: 'long_call_timeout',
}


def timeout_option(method: contract.Method) -> str:
    """Return the timeout of a method and the option that sets the timeout."""
    if method.timeout is None:
        return 'unlimited'
    option = _OPTIONS[method.timeout]
    return f'{getattr(rpc_conf.RpcSettings(), option)} s ({rst.literal(option)})'


def summary(documented: object) -> str:
    """Return the first line of the docstring of an interface or method."""
    return (documented.__doc__ or '').strip().splitlines()[0]


def methods(interface: type[contract.Interface]) -> str:
    """Return the table of the methods of an interface, in the order of their definitions."""
    rows = []
    for name, method in contract.methods(interface).items():
        said = summary(getattr(interface, name))
        rows.append([rst.literal(name), method.since, method.kind.value,
                     timeout_option(method), said])
    return rst.table(('method', 'since', 'kind', 'timeout', 'description'), rows,
                     (16, 7, 9, 24, 44))


def consumer_methods() -> str:
    """Return the table of the methods that consumers can call."""
    return rst.NOTICE + methods(attachments.AttachmentsInterface)


def interfaces() -> str:
    """Return the page of all interfaces and their history."""
    parts = [rst.NOTICE, rst.heading('RPC interfaces'), """
Each interface is a class in ``blockattach/storage/rpc`` (for compute, in
``blockattach/compute/interface.py``). Its servers and clients are subclasses. A released method
never changes. A *call* is handled by one server, which replies. A *cast* is handled by one server,
without a reply. A *fanout* is received by all servers. Timeouts are the defaults of ``[rpc]``.
"""]
    for interface in INTERFACES:
        parts += [rst.heading(interface.TOPIC, '-'), f'\n{summary(interface)}\n',
                  methods(interface)]
    parts += [rst.heading('Releases', '-'), """
Versions of the interfaces and objects of each release. Set ``[rpc] release`` to one of these
releases while processes of two releases share the message bus.
""", releases()]
    return ''.join(parts)


def releases() -> str:
    """Return the table of releases."""
    def listed(versions: dict[str, str]) -> str:
        return ', '.join(f'{name} {version}' for name, version in sorted(versions.items()))
    return rst.table(('release', 'interfaces', 'objects'), [
        [release.name, listed(dict(release.interfaces)), listed(dict(release.objects))]
        for release in history.RELEASES], (8, 36, 56))


def call_ends() -> str:
    """Return the table of causes for which a call ends without a response."""
    values = rpc_conf.RpcSettings()
    return rst.NOTICE + rst.table((
        'cause', 'limits', 'retries', 'error code', 'operation'), [
        [end.when, ', '.join(f'{rst.literal(option)} ({getattr(values, option)})'
                             for option in end.limits) or 'none',
         end.then, rst.literal(end.error.code), end.work.value]
        for end in ends.ENDS], (30, 18, 22, 18, 12))


def rabbit_defaults() -> str:
    """Return the table of options whose defaults differ from those of the driver."""
    return rst.NOTICE + rst.table(('option', 'default', 'reason'), [
        [rst.literal(option.name), str(option.value), option.reason]
        for option in rabbit.DEFAULTS], (34, 10, 56))


if __name__ == '__main__':
    sys.stdout.write(interfaces())
