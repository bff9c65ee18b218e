"""Records of the compute service: servers, their volumes, acts, actions and agents."""
import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from blockattach.compute import lifecycle
from blockattach.storage.domain import connection


@dataclasses.dataclass(frozen=True, slots=True)
class Flavor:
    """Resources of a server. ``memory_mb`` is in MiB and ``disk_gb`` in GiB."""

    id: str
    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """Server of a project.

    :ivar host: current host, or None before it is chosen and after an offload
    :ivar flavor: flavor as configured when the server got it
    :ivar old_host: host to which a resize can be reverted, with ``old_flavor`` and the former
        state in ``old_state``
    :ivar metadata: metadata items set by clients
    :ivar fault: reason of the error or of the undone act, or None
    :ivar generation: number of the newest lease (`blockattach.compute.agent.Fence`)
    """

    id: str
    project_id: str
    user_id: str
    name: str
    flavor: Flavor
    image_ref: str
    host: str | None
    vm_state: lifecycle.VmState
    task_state: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime
    launched_at: datetime.datetime | None = None
    old_host: str | None = None
    old_flavor: Flavor | None = None
    old_state: str | None = None
    reservation_id: str | None = None
    fault: str | None = None
    description: str | None = None
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    generation: int = 1

    @property
    def status(self) -> str:
        """Status that clients see, derived from ``vm_state`` and ``task_state``."""
        return lifecycle.status(self.vm_state, self.task_state)


@dataclasses.dataclass(frozen=True, slots=True)
class BlockDevice:
    """Volume of a server.

    :ivar device: device name; if empty, the next free name is chosen when the record is stored
    :ivar attachment_id: attachment in block storage, or None
    :ivar next_attachment_id: second attachment, for the host or volume that replaces the current
        one, or None
    :ivar state: ``attaching``, ``attached`` (from the start for volumes of a new server) or
        ``detaching``
    """

    id: str
    server_id: str
    volume_id: str
    device: str
    mode: connection.AccessMode
    state: str
    boot_index: int | None = None
    delete_on_termination: bool = False
    shared: bool = False
    tag: str | None = None
    attachment_id: str | None = None
    next_attachment_id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Act:
    """Operation in progress on a server.

    :ivar arguments: arguments of the verb
    :ivar caller: request context of the caller, without the token
    :ivar finishing: True if the act can no longer be undone and must be finished
    :ivar lease: unique lease by which a process holds the act; a process that takes it over gets
        another one
    :ivar generation: generation of the server when this process began or took over the act
    """

    id: str
    server_id: str
    verb: str
    arguments: Mapping[str, Any]
    caller: Mapping[str, Any]
    finishing: bool
    lease: str = ''
    generation: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Action:
    """Instance action: the history entry of an act, kept after its end.

    :ivar number: position in the history
    :ivar host: host of the server at the start, and after the end the host where the act left
        the server
    :ivar updated_at: time of the start, or of the end once there is one
    :ivar finished_at: time of the end, or None while in progress
    :ivar fault: reason of the failure, or None
    """

    number: int
    act_id: str
    server_id: str
    action: str
    request_id: str
    project_id: str
    user_id: str
    host: str | None
    started_at: datetime.datetime
    updated_at: datetime.datetime
    finished_at: datetime.datetime | None
    fault: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Agent:
    """Agent of a host, as last reported.

    :ivar version: version of the agent interface
    :ivar up: True if the last report is recent
    """

    host: str
    kind: str
    version: str
    reported_at: datetime.datetime
    up: bool
