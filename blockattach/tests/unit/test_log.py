"""Format of log lines."""
import io
import json
import logging
import sys
import unittest
from concurrent import futures

from oslo_config import cfg
from oslo_log import formatters

from blockattach.platform import context
from blockattach.platform import log


class FieldsTest(unittest.TestCase):

    def test_fields_rendered_as_key_value(self):
        self.assertEqual(' volume_id=v host=h@b', str(log.fields(volume_id='v', host='h@b')))

    def test_fields_rendered_lazily(self):
        class Value:
            def __str__(self):
                raise AssertionError

        log.fields(value=Value())

    def test_field_with_line_break_escaped(self):
        for text in ('h\n2026 ERROR all is lost', 'a\rb', 'a\x1b[2Jb', 'a\u2028b', 'a\x85b'):
            with self.subTest(text=text):
                line = str(log.fields(host=text))
                self.assertTrue(line.isprintable(), line)
                self.assertEqual(f' host={text!r}', line)


class StepTest(unittest.TestCase):
    """Steps logged within a request and without one."""

    def setUp(self):
        super().setUp()
        self.logger = logging.getLogger(f'{__name__}.step')

    def step(self, **identifiers):
        """Log a step and return its level and its message."""
        with self.assertLogs(self.logger, 'DEBUG') as logged:
            log.step(self.logger, 'Volume deleted', **identifiers)
        [record] = logged.records
        self.assertEqual('step', record.funcName)
        return record.levelname, record.getMessage()

    def within(self, *steps):
        """Log steps within a request and return the fields for its line."""
        noted = log.Noted()
        noted.begin()
        try:
            for identifiers in steps:
                self.assertEqual('DEBUG', self.step(**identifiers)[0])
        finally:
            noted.end()
        return noted.as_json()

    def test_step_without_request_logged_as_info(self):
        self.assertEqual(('INFO', 'Volume deleted volume_id=v size_gb=3'),
                         self.step(volume_id='v', size_gb=3))

    def test_request_line_has_ids_of_steps(self):
        self.assertEqual({'volume_id': 'v', 'attachment_id': 'a', 'reason': 'x'}, self.within(
            {'volume_id': 'v', 'instance_uuid': None, 'size_gb': 3},
            {'volume_id': 'v', 'attachment_id': 'a', 'reason': OSError('x')}))
        self.assertEqual('INFO', self.step()[0])

    def test_request_line_has_each_kind_of_id(self):
        ids = {name: 'x' for name in log.FIELDS if name.endswith(('_id', '_uuid', '_volid'))}
        self.assertIn('volume_id', ids)
        self.assertEqual(ids, self.within(ids))

    def test_request_line_joins_values(self):
        self.assertEqual({'volume_id': 'v,w'}, self.within(
            {'volume_id': 'v'}, {'volume_id': 'w'}, {'volume_id': 'v'}))

    def test_request_line_length_limited(self):
        found = self.within(*({'volume_id': f'{number:036}'} for number in range(100)))
        self.assertLess(len(found['volume_id']), 500)

    def test_request_line_has_ids_of_suppressed_steps(self):
        noted = log.Noted()
        noted.begin()
        self.addCleanup(noted.end)
        self.logger.setLevel('INFO')
        self.addCleanup(self.logger.setLevel, 'NOTSET')
        with self.assertNoLogs(self.logger, 'INFO'):
            log.step(self.logger, 'Volume deleted', volume_id='v')
        self.assertEqual(' volume_id=v', str(noted))


class JsonTest(unittest.TestCase):
    """Log lines in JSON, with ``use_json``."""

    def written(self, sentence, *arguments):
        """Return one record as written in JSON and as text."""
        logger = logging.Logger('blockattach.x')
        streams = []
        for formatter in (log.JsonFormatter(), logging.Formatter()):
            handler = logging.StreamHandler(io.StringIO())
            handler.setFormatter(formatter)
            logger.addHandler(handler)
            streams.append(handler.stream)
        logger.warning(sentence, *arguments)
        return [stream.getvalue() for stream in streams]

    def test_json_line_has_fields_by_name(self):
        line, text = self.written('Volume created%s', log.fields(
            volume_id='v', size_gb=3, pool=None, seconds=1.5, done=True, cause=OSError('x')))
        self.assertEqual(1, line.count('\n'))
        entry = json.loads(line)
        self.assertEqual({'volume_id': 'v', 'size_gb': 3, 'pool': None, 'seconds': 1.5,
                          'done': True, 'cause': 'x'}, entry['fields'])
        self.assertEqual(('Volume created', 'WARNING', 'blockattach.x'),
                         (entry['message'], entry['levelname'], entry['name']))
        self.assertIn('Volume created volume_id=v size_gb=3', text)

    def test_json_message_excludes_fields(self):
        line, _ = self.written('Cannot %s: %s%s', 'attach', 7, log.fields(host='h\nx'))
        entry = json.loads(line)
        self.assertEqual(('Cannot attach: 7', {'host': 'h\nx'}),
                         (entry['message'], entry['fields']))

    def test_json_line_of_other_loggers(self):
        for sentence, arguments, message in (
                ('x', (), 'x'), ('x %s', ('y',), 'x y'), ('x %(a)s', ({'a': 1},), 'x 1')):
            with self.subTest(sentence=sentence):
                entry = json.loads(self.written(sentence, *arguments)[0])
                self.assertEqual((message, {}), (entry['message'], entry['fields']))


class LevelsTest(unittest.TestCase):

    def test_debug_keeps_levels_of_chatty_libraries(self):
        conf = cfg.ConfigOpts()
        log.register(conf)
        conf(['--debug'], default_config_files=[], default_config_dirs=[])
        for library in ('sqlalchemy', 'keystoneauth'):
            self.assertIn(f'{library}=WARNING', conf.default_log_levels)


class LineTest(unittest.TestCase):
    """Log lines as text, compared with oslo.log."""

    def setUp(self):
        self.conf = cfg.ConfigOpts()
        log.register(self.conf)
        self.conf([], default_config_files=[], default_config_dirs=[])

    def formatters(self):
        return [kind(datefmt='%Y-%m-%d %H:%M:%S', config=self.conf, project='p', version='1')
                for kind in (formatters.ContextFormatter, log.LineFormatter)]

    @staticmethod
    def records():
        """Yield new records, because formatters modify them."""
        fields = log.fields(volume_id='v', host='a\nb')
        try:
            raise OSError('gone')
        except OSError:
            failure = sys.exc_info()
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            for sentence, arguments, exc_info, more in (
                    ('Volume created%s', (fields,), None, {}),
                    ('100 % of nothing', (), None, {}),
                    ('%d', ('no number',), None, {}),
                    ('Cannot go on', (), failure, {}),
                    ('x', (), None, {'stack_info': 'Stack:\n  x'}),
                    ('x', (), None, {'instance': 'i'}),
                    ('x', (), None, {'instance_uuid': 'u'}),
                    ('x', (), None, {'resource': '[volume-1] '}),
                    ('x', (), None, {'context': context.RequestContext(
                        request_id='req-2', user_id='other', overwrite=False)}),
                    ('x', (), None, {'user_name': 'one', 'extra_keys': ['user_name']})):
                record = logging.LogRecord('blockattach.x', level, '/a/b.py', 7, sentence,
                                           arguments, exc_info, 'act')
                record.__dict__.update(more, created=1.5, msecs=500.0)
                yield record

    def check(self):
        usual, ours = self.formatters()
        for expected, record in zip(self.records(), self.records(), strict=True):
            # oslo.log names a request of others also where there is none.
            self.assertEqual(self.written(usual, expected).replace('[None req-', '[req-'),
                             self.written(ours, record))

    @staticmethod
    def written(formatter, record):
        try:
            return formatter.format(record)
        except TypeError as error:
            # For the handler to write.
            return repr(error)

    def test_line_equals_oslo_log(self):
        for caller in ({}, {'user_id': 'u', 'project_id': 'p'},
                       {'global_request_id': 'req-3', 'domain_id': 'd', 'user_domain_id': 'ud',
                        'project_domain_id': 'pd', 'system_scope': 'all', 'user_name': 'n'},
                       {'resource_uuid': 'r'}, {'auth_token': 'secret'}):
            with self.subTest(caller=caller):
                context.RequestContext(request_id='req-1', **caller)
                self.check()

    def test_line_omits_missing_values(self):
        context.RequestContext(request_id='req-1')
        ours = self.formatters()[1]
        for record in self.records():
            self.assertNotIn('None', self.written(ours, record))

    def test_line_without_context_equals_oslo_log(self):
        with futures.ThreadPoolExecutor(1) as new_thread:
            new_thread.submit(self.check).result()

    def test_line_with_configured_format_equals_oslo_log(self):
        context.RequestContext(request_id='req-1', user_id='u', roles=['member'])
        for option, value in (
                ('logging_context_format_string', '%(isotime)s %(user_name)s %(message)s'),
                ('logging_context_format_string', '%(levelname)s %(roles)s %(message)s'),
                ('logging_context_format_string', '%(threadName)s 5%% %(message)s'),
                ('logging_context_format_string', '%(resource)s%(message)s %(error_summary)s'),
                ('logging_user_identity_format', '%(user)s/%(project)s'),
                ('logging_user_identity_format', '%(user_name)s %(request_id)s'),
                ('logging_user_identity_format', 'somebody')):
            with self.subTest(option=option, value=value):
                self.conf.set_override(option, value)
                self.check()
                self.conf.clear_override(option)
