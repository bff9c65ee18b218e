"""A service on a real tgtd whose target somebody changes by hand."""
import contextlib
import os
import pathlib
import signal

from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import tgt
from blockattach.testing import initiator
from blockattach.tests.conformance import settings
from blockattach.tests.functional import base

EXTENDED = 'volume 3.71, blockattach 1.2'
STRANGER = 'iqn.2026-01.org.example:stranger'


class Site:
    """One `blockattach-all` on files, what it has attached, and its tgtd."""

    def __init__(self, test, service):
        self._test = test
        self.service = service
        self.api = base.Api(service.endpoint, versions=EXTENDED)
        self.tgtd = service.target()
        self.target = tgt.TgtTarget(settings.settings(
            service.state_dir, service.target_port, self.tgtd.client().path))

    def attach(self, host):
        """Make a volume for a host and let it in; the volume's id, and the attachment."""
        volume_id = self._test.a_volume(self.api)
        status, made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})
        self._test.assertEqual(200, status, made)
        return volume_id, made['attachment']

    def session(self, host, seconds=60):
        """A host with a volume of its own, and a session that lasts; None without an initiator."""
        _, made = self.attach(host)
        if not initiator.available():
            return None
        opened = initiator.Initiator(base.connector(host)['initiator'], seconds).open(
            made['connection_info'])
        self._test.addCleanup(opened.close)
        opened.write(0, 4096, 1)
        return opened

    def sessions(self):
        """As tgtd numbers them: another number is another session."""
        return sorted((target.name, session.initiator, session.sid)
                      for target in self.tgtd.client().targets() for session in target.sessions)

    def granted(self):
        """The grants of the target."""
        return {(grant.volume_id, grant.initiator): grant.mode
                for export in self.target.exports() for grant in export.grants}

    def exported(self):
        """What the target offers."""
        return {export.volume_id for export in self.target.exports()}

    @contextlib.contextmanager
    def unseen(self):
        """The service stands still meanwhile: it neither sees half of a change nor undoes it yet.
        """
        os.kill(self.service.pid, signal.SIGSTOP)
        base.until_still(self.service.pid)
        try:
            yield
        finally:
            os.kill(self.service.pid, signal.SIGCONT)

    def grant_by_hand(self, volume_id):
        """A stranger whom no attachment knows."""
        [path] = pathlib.Path(self.service.state_dir).rglob(f'volume-{volume_id}')
        self.target.grant(
            connection.Export(volume_id, path.name, str(path), 1),
            connection.Grant(volume_id, STRANGER, connection.AccessMode.RW,
                             connection.Credential('stranger', 'secret-of-twelve'), '-stranger'))

    def offer_by_hand(self, volume_id):
        """A volume to nobody."""
        self.tgtd.client().add_target(
            4242, f'{settings.settings("/").target_prefix}volume-{volume_id}')

    def reconciled(self):
        """What the service reports as repaired."""
        [counts] = [one['reconciled'] for one in self.api.list('services', '/os-services')
                    if one['binary'] == 'cinder-volume']
        return counts
