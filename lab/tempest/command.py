"""Execution of `tools/run-tempest` on a running cloud: run Tempest and check its skips."""
import configparser
import contextlib
import http.server
import io
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import openstack
import subunit
import tempest
import testtools

from lab.tempest import options as tempest_options

TESTS = r'^(tempest\.api\.volume|cinder_tempest_plugin)\.'
WORKERS = 2
SKIPS = pathlib.Path(__file__).with_name('skips.txt')
CONFIGURATION = 'tempest.conf'
IMAGE = 'blockattach-tempest'
IMAGE_BYTES = 1 << 20
BACKENDS = ('disks-1', 'spare-1')
_DOMAIN_OF = 'OS_PROJECT_DOMAIN_NAME'


class Outcome(NamedTuple):
    """Outcome of a test.

    :ivar status: ``success``, ``fail``, ``skip``, ...
    :ivar reason: reason of a skip; else empty
    """

    name: str
    status: str
    reason: str


def account(openrc: pathlib.Path) -> dict[str, str]:
    """Return the variables that an openrc file exports."""
    lines = (shlex.split(line) for line in openrc.read_text('utf-8').splitlines())
    return dict(words[1].split('=', 1) for words in lines if words[:1] == ['export'])


def connect(openrc: dict[str, str]) -> openstack.connection.Connection:
    """Return a connection of the administrator of the cloud."""
    return openstack.connection.Connection(
        auth_type='password', region_name=openrc['OS_REGION_NAME'], auth={
            'auth_url': openrc['OS_AUTH_URL'], 'username': openrc['OS_USERNAME'],
            'password': openrc['OS_PASSWORD'], 'project_name': openrc['OS_PROJECT_NAME'],
            'user_domain_name': openrc[_DOMAIN_OF], 'project_domain_name': openrc[_DOMAIN_OF]})


def image_id(cloud: openstack.connection.Connection) -> str:
    """Return the id of a small image to create volumes from. The image is created if needed."""
    images: Any = cloud.image
    found = images.find_image(IMAGE)
    if found is None:
        found = images.create_image(
            IMAGE, data=io.BytesIO(os.urandom(IMAGE_BYTES)), disk_format='raw',
            container_format='bare', visibility='public')
    return str(found.id)


class NoNetworks(http.server.BaseHTTPRequestHandler):
    """Neutron API without security groups.

    Tempest lists the security groups of each project that it deletes.
    """

    def do_GET(self) -> None:  # noqa: N802, the name is the library's
        """Return an empty list of security groups for any request."""
        body = json.dumps({'security_groups': []}).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Do not log requests."""


@contextlib.contextmanager
def networks(cloud: openstack.connection.Connection, region: str) -> Iterator[None]:
    """Serve a Neutron API in the catalog during the context, for the cleanup of Tempest."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), NoNetworks)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    identity: Any = cloud.identity
    service = identity.create_service(name=region, type='network')
    identity.create_endpoint(service_id=service.id, interface='public', region_id=region,
                             url=f'http://127.0.0.1:{server.server_port}')
    try:
        yield
    finally:
        identity.delete_service(service)
        server.shutdown()


def configuration(openrc: dict[str, str], image: str) -> dict[str, dict[str, str]]:
    """Return the groups of tempest.conf: options of the service and options of this cloud."""
    region = openrc['OS_REGION_NAME']
    groups = {
        'auth': {
            'use_dynamic_credentials': 'true', 'create_isolated_networks': 'false',
            'tempest_roles': 'member', 'default_credentials_domain_name': openrc[_DOMAIN_OF],
            'admin_username': openrc['OS_USERNAME'], 'admin_password': openrc['OS_PASSWORD'],
            'admin_project_name': openrc['OS_PROJECT_NAME'],
            'admin_domain_name': openrc[_DOMAIN_OF]},
        'identity': {'auth_version': 'v3', 'uri_v3': openrc['OS_AUTH_URL'], 'region': region,
                     'v3_endpoint_type': 'public'},
        # Test classes that contain a test with a server require Neutron, and are skipped as a
        # whole without it. `networks` serves enough of its API.
        'service_available': {'cinder': 'true', 'glance': 'true', 'nova': 'false',
                              'neutron': 'true', 'swift': 'false', 'horizon': 'false'},
        'compute': {'image_ref': image, 'image_ref_alt': image},
        'image': {'region': region},
        'oslo_concurrency': {'lock_path': 'locks'},
        'volume': {
            'region': region, 'backend_names': ','.join(BACKENDS), 'volume_size': '1',
            'build_timeout': '120', 'build_interval': '1'},
        # The backends use tgt, which reports a new size only to new sessions.
        'volume-feature-enabled': {'extend_attached_volume': 'false'},
    }
    for group, options in tempest_options.OFFERED.items():
        groups[group] = options | groups.get(group, {})
    return groups


def prepare(folder: pathlib.Path, groups: dict[str, dict[str, str]]) -> None:
    """Write the configurations of Tempest and stestr to a directory."""
    folder.mkdir(exist_ok=True)
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_dict(groups)
    file = folder / CONFIGURATION
    file.touch(0o600)
    with file.open('w', encoding='utf-8') as stream:
        parser.write(stream)
    suite = pathlib.Path(tempest.__file__).parent
    (folder / '.stestr.conf').write_text(
        f'[DEFAULT]\ntest_path={suite}/test_discover\ntop_dir={suite.parent}\n'
        # The tests of a class share the resources that the class creates.
        'group_regex=([^\\.]*\\.)*\n', 'utf-8')


def outcomes(folder: pathlib.Path) -> list[Outcome]:
    """Return the outcomes of the last run."""
    found: list[Outcome] = []

    def keep(test: Any) -> None:
        reason = test['details'].get('reason')
        found.append(Outcome(str(test['id']), str(test['status']),
                             reason.as_text() if reason is not None else ''))

    stream = subprocess.run(['stestr', 'last', '--subunit'], cwd=folder, capture_output=True,
                            check=False).stdout
    result = testtools.StreamToDict(keep)
    result.startTestRun()
    subunit.ByteStreamToStreamResult(io.BytesIO(stream)).run(result)
    result.stopTestRun()
    return found


def patterns() -> tuple[list[str], list[str]]:
    """Return the patterns of reasons for allowed skips, and those of tests that are not run.

    Both are lines of a file that the documentation includes.
    """
    lines = [line.split('  #')[0].strip() for line in SKIPS.read_text('utf-8').splitlines()
             if line.strip() and not line.startswith('#')]
    return ([line for line in lines if not line.startswith('!')],
            [line[1:] for line in lines if line.startswith('!')])


def refused(results: list[Outcome]) -> Iterator[str]:
    """Yield the failed tests, and those that were skipped for a reason that is not listed."""
    allowed = [re.compile(pattern) for pattern in patterns()[0]]
    for one in results:
        if one.status == 'skip':
            text = f'{one.name}: {one.reason}'
            if not any(pattern.search(text) for pattern in allowed):
                yield f'{one.name} skipped: {one.reason}'
        elif one.status not in ('success', 'xfail'):
            yield one.name


def main() -> int:
    """Run Tempest, and return 0 if all tests passed."""
    state = pathlib.Path(sys.argv[1])
    wanted = sys.argv[2] if len(sys.argv) > 2 else TESTS
    openrc = account(state / 'cloud' / 'openrc')
    cloud = connect(openrc)
    workspace = state / 'workspace'
    prepare(workspace, configuration(openrc, image_id(cloud)))
    excluded = '|'.join(patterns()[1])
    environment = {**os.environ, 'TEMPEST_CONFIG_DIR': str(workspace),
                   'TEMPEST_CONFIG': CONFIGURATION}
    with networks(cloud, openrc['OS_REGION_NAME']):
        subprocess.run(['stestr', 'run', '--concurrency', str(WORKERS), '--exclude-regex',
                        excluded, wanted], cwd=workspace, stdin=subprocess.DEVNULL, check=False,
                       env=environment)
    found = outcomes(workspace)
    wrong = list(refused(found))
    for name in wrong:
        print(f'Failed: {name}')
    skipped = sum(one.status == 'skip' for one in found)
    passed = sum(one.status == 'success' for one in found)
    print(f'{passed} passed, {len(wrong)} failed, {skipped} skipped')
    return int(bool(wrong) or not found)


if __name__ == '__main__':
    sys.exit(main())
