"""Simulated storage: a backend in memory, which outlives every process.

Each process reaches the backend through drivers of its own. A driver may be slow, refuse an
operation, leave its outcome unknown, or report it wrongly. If a process is killed during an
operation, the seed determines whether the operation has happened.
"""
import abc
import random
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from blockattach.platform import errors
from blockattach.storage.domain import connection
from blockattach.storage.drivers import base
from blockattach.storage.drivers import loading
from blockattach.storage.drivers.stores import fake as fake_store
from blockattach.storage.drivers.targets import fake as fake_target
from blockattach.testing import backend
from lab.simulation import baton as batons
from lab.simulation import faults
from lab.simulation import overtaken

NAME = 'disks'
BESIDE = 'more'
"""A second backend of the same processes."""
TOTALS_GB = (60, 60, 7)
"""Possible capacities of a store, of which the last is too small for all volumes of clients."""
CACHES: Mapping[str, Mapping[str, Any]] = {
    NAME: {'image_volume_cache_enabled': True, 'image_volume_cache_max_count': 2},
    BESIDE: {'image_volume_cache_enabled': True, 'image_volume_cache_max_size_gb': 2}}
"""Image cache options of each backend. Their limits are lower than the number of images."""
STRANGER = 'iqn.2026-01.org.example:stranger'

_READS = frozenset({'check', 'pools', 'device', 'exports', 'reservations'})
_FULLY_FAULTY = frozenset({'create', 'clone', 'clone_snapshot', 'delete', 'extend', 'grant',
                           'revoke', 'resize', 'export', 'unexport', 'create_snapshot',
                           'delete_snapshot', 'revert', 'manage', 'manage_snapshot'})
_SECOND = frozenset({'clone', 'clone_snapshot', 'manage', 'manage_snapshot'})
"""Verbs whose second argument is the created volume or snapshot."""


class Storage:
    """True state of a backend."""

    def __init__(self, baton: batons.Baton, trouble: faults.Faults, total_gb: int,
                 name: str = NAME, caches: bool = False) -> None:
        """
        :param caches: whether the backend has an image cache
        """
        self.baton = baton
        self.faults = trouble
        self.settings = backend.settings(
            '/nonexistent', name=name, volume_backend_name=name, store='fake', target='fake',
            pool_name='pool', max_over_subscription_ratio=1.0,
            **(CACHES[name] if caches else {}))
        self.store = fake_store.FakeStore(self.settings)
        self.store.total_gb = total_gb
        self.target = fake_target.FakeTarget(self.settings)
        self.acts = 0
        self.lied: set[str] = set()
        """Volumes about which the backend has reported a wrong outcome."""
        self.foreign: set[str] = set()
        """Names of resources that may exist on the backend without a row in the database."""
        self.brought_gb = 0
        """Total size of the resources that were ever requested to be managed."""
        self.overtaken = overtaken.Overtaken(baton)

    def loaded(self, touch: Callable[[str], None]) -> loading.Backend:
        """Return the backend as one process sees it."""
        return loading.Backend(self.settings.name, self.settings,
                               self._reached(base.VolumeStore, self.store, touch),
                               self._reached(base.ExportTarget, self.target, touch))

    def tamper(self, chance: random.Random) -> str:
        """Change the target behind the back of the service, and return the kind of change."""
        grants = [grant for export in self.target.exports() for grant in export.grants]
        kind = chance.choice(('forget all', 'revoke', 'grant', 'turn'))
        if kind == 'forget all' or not grants:
            self.target.lose_everything()
            return 'forget all'
        one = chance.choice(grants)
        credential = connection.Credential(one.account or '', 'tampered')
        if kind == 'revoke':
            self.target.revoke(one.volume_id, one.initiator)
            return kind
        name, mode, alias = one.initiator, connection.AccessMode.RO, '-turned'
        if kind == 'grant':
            name, mode, alias = STRANGER, connection.AccessMode.RW, '-stranger'
        elif one.mode is connection.AccessMode.RO:
            mode = connection.AccessMode.RW
        self.target.revoke(one.volume_id, name)
        self.target.grant(connection.Export(one.volume_id, 'name', '/dev/null', 1),
                          connection.Grant(one.volume_id, name, mode, credential, alias))
        return kind

    def _reached(self, contract: type[abc.ABC], driver: object,
                 touch: Callable[[str], None]) -> Any:
        """Return the driver as one process sees it, with faults."""
        public = {name for name in vars(contract) if not name.startswith('_')}
        verbs = {name for name in public if callable(vars(contract)[name])}
        facts = {name: getattr(driver, name) for name in public - verbs}
        for name in base.declared(driver):
            verbs.update(verb for verb in vars(base.CAPABILITIES[name])
                         if not verb.startswith('_'))
        return type(type(driver).__name__, (contract,), facts | {
            verb: self._act(verb, getattr(driver, verb), touch) for verb in sorted(verbs)})()

    def _act(self, verb: str, act: Callable[..., Any],
             touch: Callable[[str], None]) -> Callable[..., Any]:
        happens = self.faults.happens

        def look(_self: object, *arguments: Any) -> Any:
            touch('backend')
            found = act(*arguments)
            if verb == 'exports' and found and happens('lies', verb):
                # For a volume that is not listed, all grants seem to be missing.
                return found[1:]
            return found

        def change(_self: object, *arguments: Any) -> Any:
            with self.overtaken.watching(verb, arguments) as done:
                return changed(arguments, done)

        def changed(arguments: tuple[Any, ...], done: Callable[[], None]) -> Any:
            touch('backend')
            if happens('slow', verb):
                self.baton.wait(self.faults.seconds(self.faults.rates.slow_seconds))
            # Drivers promise that an extend to the current size succeeds, since the earlier
            # extend may have got no answer.
            if happens('refused', verb) and not (
                    verb == 'extend'
                    and self.store.sizes().get(arguments[0].name) == arguments[1]):
                raise errors.BackendRefused(reason=f'{verb} is refused')
            if happens('uncertain_before', verb):
                raise errors.BackendUncertain(reason=f'{verb} was not started')
            result = act(*arguments)
            self.acts += 1
            done()
            touch('backend')
            if happens('lies', verb):
                self.lied.add(_volume_of(arguments[verb in _SECOND]))
                raise errors.BackendRefused(reason=f'{verb} is reported as refused')
            if happens('uncertain_after', verb):
                raise errors.BackendUncertain(reason=f'{verb} gave no answer')
            if happens('unforeseen', verb):
                raise OSError(f'{verb} failed unexpectedly')
            return result
        return change if verb in _FULLY_FAULTY else look


def _volume_of(argument: Any) -> str:
    """Return the ID of the volume or snapshot that an argument of a driver names."""
    if isinstance(argument, str):
        return argument
    return str(getattr(argument, 'volume_id', None) or argument.id)
