"""What may be done with a server, as one table, and the status that clients see.

States are Nova's. ``vm_state`` is what a server is; ``task_state`` what is being done with it, by
one act at a time. Attaching and detaching volumes share: several may be under way.
"""
import enum
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple


class VmState(enum.StrEnum):
    """What a server is, while nothing is done with it."""

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
    """One act on a server.

    :ivar allowed: the states in which it may begin
    :ivar task_state: while it is under way
    :ivar event: what notifications call it
    :ivar action: what the list of what was done with a server calls it
    :ivar becomes: the state after it; None: the one before
    :ivar finishes: interrupted, it is done again until it is done; else it is undone
    :ivar waits: it may begin while another act is under way, and waits for its end
    :ivar shares: others that share may be under way; the server shows no ``task_state`` then
    """

    allowed: frozenset[VmState]
    task_state: str
    event: str
    action: str
    becomes: VmState | None = None
    finishes: bool = False
    waits: bool = False
    shares: bool = False


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
    'delete': Verb(_ANY, 'deleting', 'delete', 'delete', _V.DELETED, finishes=True, waits=True),
}
"""Every act, by name."""

_STATUS = {
    _V.BUILDING: 'BUILD', _V.ACTIVE: 'ACTIVE', _V.STOPPED: 'SHUTOFF', _V.SHELVED: 'SHELVED',
    _V.OFFLOADED: 'SHELVED_OFFLOADED', _V.RESIZED: 'VERIFY_RESIZE', _V.ERROR: 'ERROR',
    _V.DELETED: 'DELETED'}
_TASK_STATUS = {
    'rebooting': 'REBOOT', 'rebuilding': 'REBUILD', 'resize_migrating': 'RESIZE',
    'resize_reverting': 'REVERT_RESIZE', 'migrating': 'MIGRATING'}
STATUSES = (*_STATUS.values(), *_TASK_STATUS.values())
"""All that clients may see."""


def status(vm_state: VmState, task_state: str | None) -> str:
    """What clients see as the status of a server."""
    return _TASK_STATUS.get(task_state or '', _STATUS[vm_state])


def action(name: str, arguments: Mapping[str, Any]) -> str:
    """What clients see an act as. One that keeps the flavor is a migration to them, no resize."""
    if name == 'resize' and 'flavor' not in arguments:
        return 'migrate'
    return VERBS[name].action


def refusal(name: str, vm_state: VmState, under_way: Collection[str]) -> tuple[str, str] | None:
    """Why an act may not begin: the attribute that does not allow it, and its value.

    :param under_way: the verbs of the acts on the server
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
