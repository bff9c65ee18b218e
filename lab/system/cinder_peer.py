"""Cinder with its own migrations, and its services in the process of `cinder_run`.

Volumes are files. Cinder's driver for tgt exports them at an existing tgtd.
"""
import configparser
import os
import pathlib
import shutil
import signal
import subprocess

import sqlalchemy as sa

from blockattach.testing import stack
from blockattach.tests.functional import base
from blockattach.tests.rules import sources

PROJECT = '0123456789abcdef0123456789abcdef'
BACKEND = 'disks'
VENV = sources.ROOT / '.venv-cinder'
PROGRAM = pathlib.Path(__file__).parent / 'peer' / 'cinder_run.py'
_SECONDS = 240
_TARGETS = 'default-driver iscsi\ninclude {}/*\n'
_TGT_ADMIN = '#!/bin/sh\nexec {} --conf {} "$@"\n'


def why_missing():
    """Return the name of a missing requirement, or None."""
    if not (VENV / 'bin' / 'cinder-manage').exists():
        return 'Cinder in .venv-cinder'
    return None if shutil.which('tgt-admin') else 'tgt-admin'


class Cinder:
    """Cinder deployment. ``api`` is a client of an administrator of `PROJECT`.

    :param folder: directory of the deployment
    :param url: URL of an empty database
    :param files: directory of the volumes
    :param client: client of the tgtd, which listens at ``port``
    """

    def __init__(self, folder, url, host, files, client, port):
        self._folder, self._url, self._process = pathlib.Path(folder), url, None
        for name in ('bin', 'locks', 'state', 'targets'):
            (self._folder / name).mkdir(parents=True)
        pathlib.Path(files).mkdir(parents=True, exist_ok=True)
        self._api_port = stack.free_port()
        self._configure(host, files, port)
        self._environment = {
            **os.environ, 'PYTHONPATH': str(PROGRAM.parent),
            'PATH': f'{self._folder}/bin:{os.environ["PATH"]}',
            'TGT_IPC_SOCKET': f'{self._folder}/socket'}
        # tgtadm expects a socket with this name, as with Debian's tgtd.
        os.symlink(client.path, self._folder / 'socket.0')
        self.api = base.Api(f'http://127.0.0.1:{self._api_port}/v3/{PROJECT}',
                            headers={'X-Auth-Token': f'admin:{PROJECT}'})

    def start(self):
        """Create the tables with Cinder's migrations and start the services."""
        done = subprocess.run([*self._command('cinder-manage'), 'db', 'sync'], check=False,
                              env=self._environment, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        with open(self._folder / 'output', 'ab') as output:
            self._process = subprocess.Popen(
                self._command('python', PROGRAM),
                env=self._environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT)
        if not base.wait_for(self._serves, _SECONDS):
            raise AssertionError(f'Cinder is not ready:\n{self.said()}')

    def stop(self):
        """Stop the services. A repeated call does nothing."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(stack.STOP_SECONDS)
            finally:
                self._process.kill()
                self._process.wait()
                self._process = None

    def forget_services(self):
        """Set old heartbeats, as if the services had been stopped long ago."""
        engine = sa.create_engine(self._url)
        with engine.begin() as connection:
            connection.exec_driver_sql("UPDATE services SET updated_at = '2024-01-01 00:00:00'")
        engine.dispose()

    def ask(self, method, path, body=None):
        """Send a request that must succeed and return the body of the response."""
        status, answer = self.api.ask(method, path, body)
        if status >= 300:
            raise AssertionError(f'{method} {path}: {status} {answer}\n{self.said()}')
        return answer

    def _serves(self):
        assert self._process.poll() is None, self.said()
        try:
            services = self.api.ask('GET', '/os-services')[1]['services']
        except OSError:
            return False
        return {one['binary'] for one in services if one['state'] == 'up'} == {
            'cinder-scheduler', 'cinder-volume'}

    def _command(self, *words):
        return [VENV / 'bin' / words[0], *words[1:], '--config-file',
                self._folder / 'cinder.conf']

    def said(self):
        """Return the end of the output and the log."""
        text = ''.join((self._folder / name).read_text('utf-8', 'replace')
                       for name in ('output', 'log') if (self._folder / name).exists())
        return text[-4000:]

    def _configure(self, host, files, port):
        targets = self._folder / 'targets.conf'
        targets.write_text(_TARGETS.format(self._folder / 'targets'))
        program = self._folder / 'bin' / 'tgt-admin'
        program.write_text(_TGT_ADMIN.format(shutil.which('tgt-admin'), targets))
        program.chmod(0o700)
        parser = configparser.ConfigParser(interpolation=None, default_section='')
        parser.read_dict({
            'DEFAULT': {
                'host': host, 'state_path': self._folder / 'state', 'auth_strategy': 'noauth',
                'transport_url': 'fake:/', 'enabled_backends': BACKEND,
                'api_paste_config': VENV / 'etc' / 'cinder' / 'api-paste.ini',
                'osapi_volume_listen': '127.0.0.1', 'osapi_volume_listen_port': self._api_port,
                'backend_stats_polling_interval': 3, 'log_file': self._folder / 'log'},
            BACKEND: {
                'volume_driver': 'cinder_run.FileDriver', 'volume_backend_name': BACKEND,
                'files_dir': files, 'volumes_dir': self._folder / 'targets',
                'target_ip_address': '127.0.0.1', 'target_port': port},
            'database': {'connection': self._url},
            'coordination': {'backend_url': f'file://{self._folder}/state'},
            'oslo_concurrency': {'lock_path': self._folder / 'locks'},
            'keystone_authtoken': {'service_token_roles': 'service'}})
        with open(self._folder / 'cinder.conf', 'w', encoding='utf-8') as file:
            parser.write(file)
