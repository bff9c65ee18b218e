"""Answers to errors."""
import unittest

from blockattach.platform.http import responses
from blockattach.storage import errors


def every(root):
    yield root
    for child in root.__subclasses__():
        yield from every(child)


class TableTest(unittest.TestCase):
    """Status of each error, by its class."""

    def test_error_answered_with_status_of_class(self):
        for error, status, key in (
                (errors.InvalidVolume(reason='x'), 400, 'badRequest'),
                (errors.VersionInvalid(version='x'), 400, 'badRequest'),
                (errors.NotAuthenticated(), 401, 'unauthorized'),
                (errors.NotAuthorized(rule='x'), 403, 'forbidden'),
                (errors.VolumeNotFound(volume_id='x'), 404, 'itemNotFound'),
                (errors.RouteNotFound(), 404, 'itemNotFound'),
                (errors.VersionNotAcceptable(requested='1', minimum='2', maximum='3'), 406,
                 'computeFault'),
                (errors.VolumeTypeExists(name='x'), 409, 'conflictingRequest'),
                (errors.AttachmentInUseByServer(instance_id='x'), 409, 'conflictingRequest'),
                (errors.MediaTypeNotSupported(), 415, 'badMediaType'),
                (errors.NovaUnavailable(server_id='x', volume_id='y', reason='z'), 503,
                 'serviceUnavailable'),
                (errors.BackendRefused(reason='x'), 500, 'computeFault'),
                (errors.BackendUncertain(reason='x'), 504, 'computeFault'),
                (errors.ServiceUnreachable(topic='x', seconds=1), 504, 'computeFault')):
            with self.subTest(error=type(error).__name__):
                answer = responses.error(error)
                self.assertEqual(status, answer.status_int)
                body = {'code': status, 'message': str(error)}
                if error.retry_after is not None:
                    body['retryAfter'] = error.retry_after
                self.assertEqual(error.retry_after, answer.headers.get('Retry-After'))
                self.assertEqual({key: body}, answer.json)

    def test_temporary_error_has_retry_after(self):
        for error in every(errors.BlockattachError):
            with self.subTest(error=error.__name__):
                passes = error.status in (503, 504)
                self.assertTrue(not passes or error.retry_after, error)

    def test_client_errors_have_status_below_500(self):
        for error in every(errors.InvalidInput):
            self.assertEqual((400, True), (error.status, error.shown), error)
        for error in every(errors.NotFound):
            self.assertEqual((404, True), (error.status, error.shown), error)
        for error in every(errors.Conflict):
            self.assertEqual((409, True), (error.status, error.shown), error)

    def test_direct_subclasses_define_status(self):
        for error in errors.BlockattachError.__subclasses__():
            with self.subTest(error=error.__name__):
                self.assertIn('status', vars(error))

    def test_internal_error_text_hidden(self):
        for error in (ValueError('secret'), KeyError('secret'), errors.BlockattachError('secret'),
                      errors.ConfigurationError('secret'), errors.NoValidPool('secret')):
            with (self.subTest(error=error),
                  self.assertLogs('blockattach.platform.http.responses', 'ERROR')):
                answer = responses.error(error)
            self.assertEqual({'computeFault': {'code': 500, 'message': responses.UNEXPECTED}},
                             answer.json)


class BodyTest(unittest.TestCase):
    """Body of a fault, whose key depends on the status alone."""

    def test_fault_key_by_status(self):
        for status, key in ((400, 'badRequest'), (401, 'unauthorized'), (403, 'forbidden'),
                            (404, 'itemNotFound'), (405, 'badMethod'),
                            (409, 'conflictingRequest'), (413, 'overLimit'),
                            (415, 'badMediaType'), (501, 'notImplemented'),
                            (503, 'serviceUnavailable'), (406, 'computeFault'),
                            (500, 'computeFault'), (502, 'computeFault')):
            with self.subTest(status=status):
                answer = responses.failure(status, 'why')
                self.assertEqual({key: {'code': status, 'message': 'why'}}, answer.json)

    def test_retry_after_in_header_and_body(self):
        answer = responses.failure(413, 'why', retry_after='0')
        self.assertEqual('0', answer.headers['Retry-After'])
        self.assertEqual({'overLimit': {'code': 413, 'message': 'why', 'retryAfter': '0'}},
                         answer.json)
