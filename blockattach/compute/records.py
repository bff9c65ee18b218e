"""What the consumer keeps: servers, their volumes, what is being done with them, and agents."""
import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from blockattach.compute import lifecycle
from blockattach.storage.domain import connection


@dataclasses.dataclass(frozen=True, slots=True)
class Flavor:
    """How large a server is."""

    id: str
    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """A server.

    :ivar host: where it is; None: nowhere yet, or no more
    :ivar flavor: as it was configured when the server got it
    :ivar old_host: where a resize may be reverted to, with ``old_flavor``; ``old_state``:
        whether it ran before
    :ivar metadata: what clients have noted about it
    :ivar fault: why it is in error, or why the last act was undone
    :ivar generation: the number of the newest lease on it (`blockattach.compute.fencing`)
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
        """As clients see it."""
        return lifecycle.status(self.vm_state, self.task_state)


@dataclasses.dataclass(frozen=True, slots=True)
class BlockDevice:
    """A volume of a server.

    :ivar device: its name; empty: the next that is free, chosen when it is written down
    :ivar attachment_id: of block storage; None: there is none (yet)
    :ivar next_attachment_id: of the host that the server is moving to
    :ivar state: ``attaching``, ``attached`` (from the first on for those it is built with) or
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
    """What is being done with a server.

    :ivar arguments: of the verb
    :ivar caller: in whose name, as a request context is written down; without a token
    :ivar finishing: it cannot be undone any more: it is done to its end
    :ivar lease: by which a process is at it; nobody else has the same, and who takes the act over
        has another one
    :ivar generation: that of its server when this process began the act, or took it over
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
    """What was done with a server: an act, which is kept when it has ended.

    :ivar number: the place in their order
    :ivar host: where the server was, and then where the act has left it
    :ivar updated_at: when it began or ended
    :ivar finished_at: None: it is under way
    :ivar fault: why it failed
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
    """An agent that has reported itself.

    :ivar version: of the interface that it speaks
    """

    host: str
    kind: str
    version: str
    reported_at: datetime.datetime
    up: bool
