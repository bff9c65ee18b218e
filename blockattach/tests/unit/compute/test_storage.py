"""Clients of Block Storage in the compute API.

With HTTP basic authentication the account sends the requests and sees more than the caller may.
"""
import json
import unittest

from blockattach.compute import conf as compute_conf
from blockattach.compute import storage
from blockattach.platform import context
from blockattach.storage import errors
from blockattach.tests.fixtures import in_process
from blockattach.tests.functional.servers import cloud
from blockattach.tests.unit import samples

OTHER_PROJECT = '0' * 31 + '9'
PROJECT = 'os-vol-tenant-attr:tenant_id'


class OldBus:
    """Bus whose control processes do not support `complete_all`."""

    def __init__(self):
        self.completed = []

    def complete(self, _caller, attachment_id):
        if attachment_id == 'gone':
            raise errors.AttachmentNotFound(attachment_id=attachment_id)
        if attachment_id == 'at work':
            raise errors.BackendUncertain(reason='x')
        self.completed.append(attachment_id)

    def complete_all(self, _caller, _attachment_ids):
        raise errors.ConfigurationError(reason='it is too old')


class OldBusTest(unittest.TestCase):

    def test_complete_all_on_old_bus_completes_one_by_one(self):
        bus = OldBus()
        failed = storage.BusAttachments(bus).complete_all(
            context.admin_context(), ['one', 'gone', 'at work', 'two'])
        self.assertEqual((['one', 'two'], ['at work']), (bus.completed, list(failed)))


class VolumesTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.status = '200 OK'
        self.shown = {'id': samples.VOLUME, 'name': None, 'status': 'available', 'size': 1,
                      'multiattach': False, 'attachments': [], PROJECT: samples.PROJECT}
        settings = compute_conf.storage_settings(in_process.configuration({'block_storage': {
            'endpoint_override': cloud.ENDPOINT, 'username': 'compute', 'password': 'password'}}))
        self.volumes = storage.HttpVolumes(settings, cloud.carrying(self.answer, cloud.Cutting()))

    def answer(self, _environ, start_response):
        start_response(self.status, [('Content-Type', 'application/json')])
        return [json.dumps({'volume': self.shown}).encode()]

    def get(self, project_id, **caller):
        return self.volumes.get(context.RequestContext(
            project_id=project_id, overwrite=False, **caller), samples.VOLUME)

    def test_volume_of_own_project_returned(self):
        self.assertEqual(samples.VOLUME, self.get(samples.PROJECT).id)

    def test_volume_of_other_project_not_found(self):
        with self.assertRaises(errors.NotFound):
            self.get(OTHER_PROJECT)
        self.assertEqual(samples.VOLUME, self.get(OTHER_PROJECT, is_admin=True).id)

    def test_forbidden_request_not_repeated_by_account(self):
        """The token of the caller is valid, so the account must not repeat the request."""
        caller = context.RequestContext(project_id=samples.PROJECT, overwrite=False)
        for status, forbidden in (('403 Forbidden', True), ('401 Unauthorized', False)):
            self.status = status
            with self.subTest(status), self.assertRaises(errors.NotAuthorized) as caught:
                self.volumes.delete(caller, samples.VOLUME)
            self.assertIs(forbidden, isinstance(caught.exception, storage.Forbidden))

    def test_volume_without_project_not_found(self):
        del self.shown[PROJECT]
        with self.assertRaises(errors.NotFound):
            self.get(samples.PROJECT)
