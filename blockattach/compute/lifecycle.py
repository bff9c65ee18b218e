"""Table of the acts on servers, and the status that clients see.

States are Nova's. ``vm_state`` is the stable state of a server, and ``task_state`` is the act in
progress. A server has only one act in progress, except that several volumes may be attached and
detached at the same time.
"""
import enum
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple


class VmState(enum.StrEnum):
    """Stable state of a server, outside of acts."""

    BUILDING = 'building'
    ACTIVE = 'active'
    STOPPED = 'stopped'
    SHELVED = 'shelved'
    OFFLOADED = 'shelved_offloaded'
    RESIZED = 'resized'
    ERROR = 'error'
    DELETED = 'deleted'


_V = VmState
_RUNS = frozenset((_V.ACTIVE,))
_OFF = frozenset((_V.STOPPED,))
_HERE = _RUNS | _OFF
_WITH_VOLUMES = _HERE | {_V.RESIZED, _V.SHELVED, _V.OFFLOADED}
_ANY = frozenset(_V) - {_V.DELETED}


class Verb(NamedTuple):
    """Type of an act on a server.

    :ivar allowed: states in which the act may begin
    :ivar task_state: task state of the server during the act
    :ivar event: name of the act in notifications
    :ivar action: name of the act in instance actions
    :ivar becomes: state after success, or None to keep the state
    :ivar finishes: True if an interrupted act is finished, False if it is undone
    :ivar waits: True if the act may begin during another act and waits for its end
    :ivar shares: True if acts that share may run at the same time; the server then has no
        ``task_state``
    """

    allowed: frozenset[VmState]
    task_state: str
    event: str
    action: str
    becomes: VmState | None = None
    finishes: bool = False
    waits: bool = False
    shares: bool = False


# Acts that replace or define the guest are allowed in ERROR, because they repair the server.
VERBS: Mapping[str, Verb] = {
    'build': Verb(frozenset((_V.BUILDING,)), 'spawning', 'create', 'create', _V.ACTIVE),
    'start': Verb(_OFF, 'powering-on', 'power_on', 'start', _V.ACTIVE, finishes=True),
    'stop': Verb(_RUNS | {_V.ERROR}, 'powering-off', 'power_off', 'stop', _V.STOPPED,
                 finishes=True),
    'reboot': Verb(_HERE | {_V.ERROR}, 'rebooting', 'reboot', 'reboot', _V.ACTIVE,
                   finishes=True),
    'attach': Verb(_WITH_VOLUMES, 'attaching_volume', 'volume_attach', 'attach_volume',
                   shares=True),
    'detach': Verb(_WITH_VOLUMES, 'detaching_volume', 'volume_detach', 'detach_volume',
                   finishes=True, shares=True),
    'swap': Verb(_HERE | {_V.RESIZED}, 'swapping_volume', 'volume_swap', 'swap_volume'),
    'shelve': Verb(_HERE, 'shelving', 'shelve', 'shelve', _V.SHELVED, finishes=True),
    'shelve_offload': Verb(frozenset((_V.SHELVED,)), 'shelving_offloading', 'shelve_offload',
                           'shelveOffload', _V.OFFLOADED, finishes=True),
    'unshelve': Verb(frozenset((_V.SHELVED, _V.OFFLOADED)), 'unshelving', 'unshelve', 'unshelve',
                     _V.ACTIVE),
    'rebuild': Verb(_HERE | {_V.ERROR}, 'rebuilding', 'rebuild', 'rebuild', _V.ACTIVE,
                    finishes=True),
    'resize': Verb(_HERE, 'resize_migrating', 'resize', 'resize', _V.RESIZED),
    'confirm_resize': Verb(frozenset((_V.RESIZED,)), 'resize_confirming', 'resize_confirm',
                           'confirmResize', _V.ACTIVE, finishes=True),
    'revert_resize': Verb(frozenset((_V.RESIZED,)), 'resize_reverting', 'resize_revert',
                          'revertResize', _V.ACTIVE),
    'live_migrate': Verb(_RUNS, 'migrating', 'live_migration', 'live-migration'),
    'evacuate': Verb(_HERE | {_V.ERROR}, 'rebuilding', 'evacuate', 'evacuate', _V.ACTIVE,
                     finishes=True),
    # Deleting waits, because the act in progress may be creating an attachment.
    'delete': Verb(_ANY, 'deleting', 'delete', 'delete', _V.DELETED, finishes=True, waits=True),
}
"""Types of all acts, by name."""

_STATUS = {
    _V.BUILDING: 'BUILD', _V.ACTIVE: 'ACTIVE', _V.STOPPED: 'SHUTOFF', _V.SHELVED: 'SHELVED',
    _V.OFFLOADED: 'SHELVED_OFFLOADED', _V.RESIZED: 'VERIFY_RESIZE', _V.ERROR: 'ERROR',
    _V.DELETED: 'DELETED'}
_TASK_STATUS = {
    'rebooting': 'REBOOT', 'rebuilding': 'REBUILD', 'resize_migrating': 'RESIZE',
    'resize_reverting': 'REVERT_RESIZE', 'migrating': 'MIGRATING'}
STATUSES = (*_STATUS.values(), *_TASK_STATUS.values())
"""All statuses that clients may see."""


def status(vm_state: VmState, task_state: str | None) -> str:
    """Return the status of a server as clients see it."""
    return _TASK_STATUS.get(task_state or '', _STATUS[vm_state])


def action(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the name of an act in instance actions.

    A resize without a new flavor is a migration.
    """
    if name == 'resize' and 'flavor' not in arguments:
        return 'migrate'
    return VERBS[name].action


def refusal(name: str, vm_state: VmState, under_way: Collection[str]) -> tuple[str, str] | None:
    """Return the reason why an act may not begin, or None if it may.

    :param under_way: names of the acts in progress on the server
    :returns: name and value of the attribute that forbids the act
    """
    verb = VERBS[name]
    if vm_state not in verb.allowed:
        return 'vm_state', vm_state.value
    if verb.waits:
        return None
    for other in under_way:
        if not (verb.shares and VERBS[other].shares):
            return 'task_state', VERBS[other].task_state
    return None
