"""Records of the compute service: servers, volumes, server actions in progress (acts) and agents.
"""
import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from blockattach.compute import lifecycle
from blockattach.storage.domain import connection


@dataclasses.dataclass(frozen=True, slots=True)
class Flavor:
    """Flavor of servers. The unit of ``memory_mb`` is MiB, and the unit of ``disk_gb`` is GiB."""

    id: str
    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """Server of a project.

    :ivar host: current host, or None before a host is chosen, after a failed build, and after an
        offload
    :ivar flavor: flavor as it was configured when the server was created or resized
    :ivar old_host: host of the server before a resize or cold migration, until the move is
        confirmed or reverted. Otherwise None
    :ivar old_flavor: flavor of the server before the move, or None like ``old_host``
    :ivar old_state: VM state of the server before the move, or None like ``old_host``
    :ivar metadata: metadata items set by clients
    :ivar fault: reason why the last server action failed, or None
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
        """Status in API responses, derived from ``vm_state`` and ``task_state``."""
        return lifecycle.status(self.vm_state, self.task_state)


@dataclasses.dataclass(frozen=True, slots=True)
class BlockDevice:
    """Volume of a server.

    :ivar device: device name; if empty, `store.Store.begin` stores the next free name
    :ivar attachment_id: id of the attachment in block storage, or None
    :ivar next_attachment_id: id of an additional attachment, or None. The attachment reserves the
        volume, or belongs to the next or former host or volume
    :ivar state: ``attaching``, ``attached`` or ``detaching``; ``attached`` from the beginning if
        the server is created with the volume
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
    """Server action in progress, a row of the table ``acts``.

    :ivar verb: type of the action, a key of `lifecycle.VERBS`
    :ivar arguments: arguments of the action
    :ivar caller: request context of the caller, without the token
    :ivar finishing: True if an interrupted action is finished instead of undone. With
        `lifecycle.Verb.finishes`, True from the beginning, otherwise from the point of no return
    :ivar lease: unique id of the lease of the process that holds the action; a process that takes
        the action over gets a new lease
    :ivar generation: generation of the server when this process began or took over the action
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
    """Instance action, the history entry of a server action.

    :ivar number: position in the history
    :ivar host: host of the server when the action ended. While the action is in progress, and if
        the server had no host at the end, the host when the action began
    :ivar updated_at: time when the action ended, or began if it is in progress
    :ivar finished_at: time when the action ended, or None while it is in progress
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
    """Agent of a host, according to its last report.

    :ivar kind: kind of the host driver
    :ivar version: version of `interface.AgentInterface` that the agent supports
    :ivar up: True if the last report is recent
    """

    host: str
    kind: str
    version: str
    reported_at: datetime.datetime
    up: bool
