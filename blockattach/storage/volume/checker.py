"""Check of the invariants of a deployment, within its rows and between its rows and targets.

The tests, the simulation and ``blockattach-manage attachments check`` use this check. The check
changes nothing. The invariants are listed in `blockattach.storage.domain.invariants.INVARIANTS`.
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
    """Checker for one database and the targets that this process can reach.

    :ivar silent: reasons why targets did not answer, by ``host@backend``; filled by `lasting`
    """

    def __init__(self, database: storage_db.Database,
                 targets: Mapping[str, base.ExportTarget] | None = None,
                 clock: clocks.Clock | None = None) -> None:
        """Create a checker.

        :param targets: targets by ``host@backend``
        """
        self._database = database
        self._targets = dict(targets or {})
        self._clock = clock or clocks.Clock()
        self.silent: dict[str, str] = {}

    def facts(self) -> observed.Facts:
        """Return the current state of the targets and of the database.

        The targets are queried first. The intent of a grant is written to a row before the grant
        is made. The rows, which are read last, thus contain the intents of all reported grants.

        :raises BackendError: if a target does not answer
        """
        return self._beside(_target(host, target)
                            for host, target in sorted(self._targets.items()))

    def violations(self, settled: bool = True) -> list[observed.Violation]:
        """Return the violations of invariants at this moment; errors as in `facts`.

        :param settled: True if no work is in progress; False to ignore the invariants that running
            work may violate for a moment
        """
        return invariants.check(self.facts(), settled)

    def lasting(self) -> list[observed.Violation]:
        """Return the violations that persist over several checks, one second apart.

        This method is for a running deployment, whose rows and targets cannot be read at the same
        moment. A target that does not answer is added to `silent` and not queried again. The rows
        are then checked without this target.
        """
        lasting = self._without_silent()
        for _ in range(_LOOKS - 1):
            if not lasting:
                break
            self._clock.wait(threading.Event(), _BETWEEN_SECONDS)
            again = {_key(violation) for violation in self._without_silent()}
            lasting = [violation for violation in lasting if _key(violation) in again]
        return lasting

    def _without_silent(self) -> list[observed.Violation]:
        targets = []
        for host in sorted(self._targets.keys() - self.silent.keys()):
            try:
                targets.append(_target(host, self._targets[host]))
            except errors.BackendError as exc:
                self.silent[host] = str(exc)
        return invariants.check(self._beside(targets))

    def _beside(self, targets: Iterable[observed.TargetFact]) -> observed.Facts:
        # The generator of the targets must be exhausted before the rows are read, see `facts`.
        asked = tuple(targets)
        return dataclasses.replace(facts.read(self._database), targets=asked)


def _target(host: str, target: base.ExportTarget) -> observed.TargetFact:
    offered = target.exports()
    return observed.TargetFact(
        host, frozenset(export.volume_id for export in offered),
        tuple(grant for export in offered for grant in export.grants))


def _key(violation: observed.Violation) -> tuple[str | None, ...]:
    # The text is left out, because it may contain a number of seconds that changes.
    return violation.invariant, violation.volume_id, violation.attachment_id
