"""Service on a real tgtd whose targets a test changes with other programs."""
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
    """`blockattach-all` on files, its attachments and its tgtd."""

    def __init__(self, test, service):
        self._test = test
        self.service = service
        self.api = base.Api(service.endpoint, versions=EXTENDED)
        self.tgtd = service.target()
        self.target = tgt.TgtTarget(settings.settings(
            service.state_dir, service.target_port, self.tgtd.client().path))

    def attach(self, host):
        """Create a volume, attach it to a host, and return the volume's id and the attachment."""
        volume_id = self._test.a_volume(self.api)
        status, made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})
        self._test.assertEqual(200, status, made)
        return volume_id, made['attachment']

    def session(self, host, seconds=60):
        """Attach a new volume and return an open session, or None without an initiator."""
        _, made = self.attach(host)
        if not initiator.available():
            return None
        opened = initiator.Initiator(base.connector(host)['initiator'], seconds).open(
            made['connection_info'])
        self._test.addCleanup(opened.close)
        opened.write(0, 4096, 1)
        return opened

    def sessions(self):
        """Return target, initiator and number of all sessions. A new session has another number.
        """
        return sorted((target.name, session.initiator, session.sid)
                      for target in self.tgtd.client().targets() for session in target.sessions)

    def granted(self):
        """Return the access modes of all grants of the target, by volume id and initiator."""
        return {(grant.volume_id, grant.initiator): grant.mode
                for export in self.target.exports() for grant in export.grants}

    def exported(self):
        """Return the ids of the exported volumes."""
        return {export.volume_id for export in self.target.exports()}

    @contextlib.contextmanager
    def unseen(self):
        """Suspend the service during the context, so that it does not see a partial change."""
        os.kill(self.service.pid, signal.SIGSTOP)
        base.until_still(self.service.pid)
        try:
            yield
        finally:
            os.kill(self.service.pid, signal.SIGCONT)

    def grant_by_hand(self, volume_id):
        """Grant a volume to an initiator without an attachment."""
        [path] = pathlib.Path(self.service.state_dir).rglob(f'volume-{volume_id}')
        self.target.grant(
            connection.Export(volume_id, path.name, str(path), 1),
            connection.Grant(volume_id, STRANGER, connection.AccessMode.RW,
                             connection.Credential('stranger', 'secret-of-twelve'), '-stranger'))

    def offer_by_hand(self, volume_id):
        """Create a target without grants for a volume."""
        self.tgtd.client().add_target(
            4242, f'{settings.settings("/").target_prefix}volume-{volume_id}')

    def reconciled(self):
        """Return the numbers of repairs that the service reports."""
        [counts] = [one['reconciled'] for one in self.api.list('services', '/os-services')
                    if one['binary'] == 'cinder-volume']
        return counts
