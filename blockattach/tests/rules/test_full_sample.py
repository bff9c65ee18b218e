"""Sample configuration with the options of the libraries, as operators generate it."""
import configparser
import pathlib
import subprocess
import sys
import tempfile
import unittest

from blockattach.tests.fixtures import polling
from blockattach.tests.rules import sources

ETC = sources.ROOT / 'etc' / 'blockattach'


class FullSampleTest(unittest.TestCase):

    def test_full_sample_has_options_of_service(self):
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            path = pathlib.Path(folder, 'sample')
            done = subprocess.run(
                [sys.executable, '-c', 'import sys; from oslo_config import generator; '
                 'sys.exit(generator.main())', '--config-file',
                 str(ETC / 'config-generator.conf'), '--output-file', str(path)],
                cwd=sources.ROOT, capture_output=True, text=True,
                timeout=polling.LIMIT, check=False)
            self.assertEqual(0, done.returncode, done.stderr)
            text = path.read_text()
        parser = configparser.ConfigParser(interpolation=None, default_section='')
        parser.read_string(text)
        for group, option in (
                ('api', 'auth_strategy'), ('keystone_authtoken', 'service_token_roles_required'),
                ('keystone_authtoken', 'memcached_servers'), ('cors', 'allowed_origin'),
                ('oslo_middleware', 'enable_proxy_headers_parsing'), ('healthcheck', 'backends'),
                ('oslo_policy', 'policy_dirs'), ('oslo_messaging_rabbit', 'ssl_ca_file')):
            with self.subTest(option=option):
                self.assertTrue(parser.has_section(group))
                self.assertIn(f'\n#{option} =', text)
        # The project overrides the default of the library.
        self.assertIn('#allow_headers = Authorization,Idempotency-Key,', text)
