"""Table of the server actions (acts), and the status of servers that clients see.

The states are Nova's. ``vm_state`` is the stable state of a server, and ``task_state`` is the
server action in progress. A server has only one action in progress, with two exceptions. Several
volumes may be attached and detached at the same time, and a deletion waits for the other action.
"""
import enum
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple


class VmState(enum.StrEnum):
    """Stable state of a server.

    The state changes through server actions, and when a guest stops by itself.
    """

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
    """Type of a server action.

    :ivar allowed: values of ``vm_state`` in which the action may begin
    :ivar task_state: task state of the server during the action
    :ivar event: name of the action in notifications
    :ivar action: name of the action in instance actions
    :ivar becomes: ``vm_state`` after success, unless the plan of the action sets another state.
        None to keep the state
    :ivar finishes: True if an interrupted action is always finished, False if the action is undone
        before its point of no return
    :ivar waits: True if the action may begin during another action, and waits for the end of that
        action
    :ivar shares: True if actions of such types may run on a server at the same time. They do not
        set ``task_state``
    """

    allowed: frozenset[VmState]
    task_state: str
    event: str
    action: str
    becomes: VmState | None = None
    finishes: bool = False
    waits: bool = False
    shares: bool = False


# Actions that replace or define the guest are allowed in ERROR, because they repair the server.
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
    # Deleting waits, because the action in progress may be creating an attachment.
    'delete': Verb(_ANY, 'deleting', 'delete', 'delete', _V.DELETED, finishes=True, waits=True),
}
"""All types of server actions, by name."""

_STATUS = {
    _V.BUILDING: 'BUILD', _V.ACTIVE: 'ACTIVE', _V.STOPPED: 'SHUTOFF', _V.SHELVED: 'SHELVED',
    _V.OFFLOADED: 'SHELVED_OFFLOADED', _V.RESIZED: 'VERIFY_RESIZE', _V.ERROR: 'ERROR',
    _V.DELETED: 'DELETED'}
_TASK_STATUS = {
    'rebooting': 'REBOOT', 'rebuilding': 'REBUILD', 'resize_migrating': 'RESIZE',
    'resize_reverting': 'REVERT_RESIZE', 'migrating': 'MIGRATING'}
STATUSES = (*_STATUS.values(), *_TASK_STATUS.values())
"""All statuses of servers in API responses."""


def status(vm_state: VmState, task_state: str | None) -> str:
    """Return the status that API responses show for the states of a server."""
    return _TASK_STATUS.get(task_state or '', _STATUS[vm_state])


def action(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the name that a server action has in instance actions.

    A resize without a new flavor is a cold migration.

    :param name: key of `VERBS`
    """
    if name == 'resize' and 'flavor' not in arguments:
        return 'migrate'
    return VERBS[name].action


def refusal(name: str, vm_state: VmState, under_way: Collection[str]) -> tuple[str, str] | None:
    """Return the reason why a server action must not begin, or None if it may begin.

    :param name: key of `VERBS`
    :param under_way: names of the actions in progress on the server
    :returns: name and value of the state of the server that forbids the action
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
