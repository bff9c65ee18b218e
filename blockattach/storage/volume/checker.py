"""Hold a deployment to its invariants: the rows by themselves, and the targets against the rows.

The one judge of every test, of the simulation and of ``blockattach-manage attachments check``. It
changes nothing. Which invariants there are says
`blockattach.storage.domain.invariants.INVARIANTS`.
"""
import dataclasses
import threading
from collections.abc import Iterable
from collections.abc import Mapping

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.storage.db import facts
from blockattach.storage.db import storage_db
from blockattach.storage.domain import invariants
from blockattach.storage.domain.invariants import observed
from blockattach.storage.drivers import base

_LOOKS = 3
_BETWEEN_SECONDS = 1.0


class Checker:
    """One database, and those targets that can be asked from here.

    :ivar silent: which of the targets did not answer `lasting`, and why
    """

    def __init__(self, database: storage_db.Database,
                 targets: Mapping[str, base.ExportTarget] | None = None,
                 clock: clocks.Clock | None = None) -> None:
        """
        :param targets: by ``host@backend``
        """
        self._database = database
        self._targets = dict(targets or {})
        self._clock = clock or clocks.Clock()
        self.silent: dict[str, str] = {}

    def facts(self) -> observed.Facts:
        """What is now; the targets are asked first, so that what they grant was wanted before.

        :raises BackendError: a target does not answer
        """
        return self._beside(_target(host, target)
                            for host, target in sorted(self._targets.items()))

    def violations(self, settled: bool = True) -> list[observed.Violation]:
        """One look; errors: `facts`.

        :param settled: nothing is at work; False: leave out what may be untrue for a moment
        """
        return invariants.check(self.facts(), settled)

    def lasting(self) -> list[observed.Violation]:
        """What is violated on several looks in a row, a moment apart.

        For a deployment at work: rows and targets are not read at one moment. A target that does
        not answer is `silent` and not asked again: the rows are compared without it.
        """
        found = self._without_silent()
        for _ in range(_LOOKS - 1):
            if not found:
                break
            self._clock.wait(threading.Event(), _BETWEEN_SECONDS)
            again = {_key(one) for one in self._without_silent()}
            found = [one for one in found if _key(one) in again]
        return found

    def _without_silent(self) -> list[observed.Violation]:
        targets = []
        for host in sorted(self._targets.keys() - self.silent.keys()):
            try:
                targets.append(_target(host, self._targets[host]))
            except errors.BackendError as exc:
                self.silent[host] = str(exc)
        return invariants.check(self._beside(targets))

    def _beside(self, targets: Iterable[observed.TargetFact]) -> observed.Facts:
        """What the targets report, and then the rows."""
        asked = tuple(targets)
        return dataclasses.replace(facts.read(self._database), targets=asked)


def _target(host: str, target: base.ExportTarget) -> observed.TargetFact:
    offered = target.exports()
    return observed.TargetFact(
        host, frozenset(export.volume_id for export in offered),
        tuple(grant for export in offered for grant in export.grants))


def _key(one: observed.Violation) -> tuple[str | None, ...]:
    """Without the text: it may count seconds."""
    return one.invariant, one.volume_id, one.attachment_id
