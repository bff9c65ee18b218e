"""Finds work that no process does any more, and runs it: the one reconciler of all verbs."""
from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.db import engine
from blockattach.db import work
from blockattach.domain import records
from blockattach.work import runner

LOG = oslo_log.getLogger(__name__)


class Recovery:
    """The interrupted work of one runner's ``host@backend``, or of schedulers."""

    def __init__(self, database: engine.Database, runner: runner.Runner) -> None:
        self._database = database
        self._runner = runner
        self._orphans: list[records.Work] = []

    def remember(self, shared: bool = False) -> None:
        """Note what earlier process instances have begun; before anything new is taken on.

        :param shared: others run that serve this backend: theirs are left to them
        """
        self._orphans = work.due(self._database, self._runner.host, self._runner.owner,
                                         shared)

    def due(self) -> list[records.Work]:
        """What is to be resumed now: the orphans at first, then what is overdue."""
        found, self._orphans = self._orphans, []
        return found or work.due(self._database, self._runner.host)

    def resume(self, found: records.Work) -> bool:
        """Run one to its end; False: another one does."""
        return self._runner.resume(found)

    def look(self, host: str | None = None) -> int:
        """Resume all, one after the other; how many.

        :param host: those of a ``host@backend`` that no process serves
        """
        found = self.due() if host is None else work.due(self._database, host)
        return sum(self._resumed(one) for one in found if self._runner.knows(one))

    def _resumed(self, found: records.Work) -> bool:
        try:
            return self.resume(found)
        except Exception as exc:
            LOG.error('Cannot resume work; its deadline brings it back%s',
                      log.fields(work=found.claim.name, resource_id=found.resource_id,
                                 reason=exc), exc_info=not errors.is_known(exc))
            return False
