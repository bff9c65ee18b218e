"""`tools/run-tempest`, once the cloud is up: configure Tempest, run it, judge its skips."""
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

import tempest_options

TOOLS = pathlib.Path(__file__).resolve().parent
TESTS = r'^(tempest\.api\.volume|cinder_tempest_plugin)\.'
WORKERS = 2
SKIPS = TOOLS / 'tempest_skips.txt'
CONFIGURATION = 'tempest.conf'
IMAGE = 'blockattach-tempest'
IMAGE_BYTES = 1 << 20
BACKENDS = ('disks-1', 'spare-1')
_DOMAIN_OF = 'OS_PROJECT_DOMAIN_NAME'


class Outcome(NamedTuple):
    """How a test ended. ``status``: success, fail, skip, ...; ``reason``: why it was skipped."""

    name: str
    status: str
    reason: str


def account(openrc: pathlib.Path) -> dict[str, str]:
    """The variables of a file that a shell would read."""
    lines = (shlex.split(line) for line in openrc.read_text('utf-8').splitlines())
    return dict(words[1].split('=', 1) for words in lines if words[:1] == ['export'])


def connect(openrc: dict[str, str]) -> openstack.connection.Connection:
    """The cloud, as its administrator."""
    return openstack.connection.Connection(
        auth_type='password', region_name=openrc['OS_REGION_NAME'], auth={
            'auth_url': openrc['OS_AUTH_URL'], 'username': openrc['OS_USERNAME'],
            'password': openrc['OS_PASSWORD'], 'project_name': openrc['OS_PROJECT_NAME'],
            'user_domain_name': openrc[_DOMAIN_OF], 'project_domain_name': openrc[_DOMAIN_OF]})


def image_id(cloud: openstack.connection.Connection) -> str:
    """A small image that volumes can be made from."""
    images: Any = cloud.image
    found = images.find_image(IMAGE)
    if found is None:
        found = images.create_image(
            IMAGE, data=io.BytesIO(os.urandom(IMAGE_BYTES)), disk_format='raw',
            container_format='bare', visibility='public')
    return str(found.id)


class NoNetworks(http.server.BaseHTTPRequestHandler):
    """A Neutron without security groups: Tempest looks for those of a project that it removes."""

    def do_GET(self) -> None:  # noqa: N802, the name is the library's
        """Answer any list."""
        body = json.dumps({'security_groups': []}).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def networks(cloud: openstack.connection.Connection, region: str) -> Iterator[None]:
    """Have a Neutron in the catalog that answers what Tempest asks for when it cleans up."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), NoNetworks)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    identity: Any = cloud.identity
    made = identity.create_service(name=region, type='network')
    identity.create_endpoint(service_id=made.id, interface='public', region_id=region,
                             url=f'http://127.0.0.1:{server.server_port}')
    try:
        yield
    finally:
        identity.delete_service(made)
        server.shutdown()


def configuration(openrc: dict[str, str], image: str) -> dict[str, dict[str, str]]:
    """Groups of tempest.conf: what the service offers, and what is so in this cloud."""
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
        # Classes that have a test with a server ask for Neutron, and are skipped whole without:
        # `networks` is enough of one.
        'service_available': {'cinder': 'true', 'glance': 'true', 'nova': 'false',
                              'neutron': 'true', 'swift': 'false', 'horizon': 'false'},
        'compute': {'image_ref': image, 'image_ref_alt': image},
        'image': {'region': region},
        'oslo_concurrency': {'lock_path': 'locks'},
        'volume': {
            'region': region, 'backend_names': ','.join(BACKENDS), 'volume_size': '1',
            'build_timeout': '120', 'build_interval': '1'},
        # The backends are tgt's.
        'volume-feature-enabled': {'extend_attached_volume': 'false'},
    }
    for group, options in tempest_options.OFFERED.items():
        groups[group] = options | groups.get(group, {})
    return groups


def prepare(folder: pathlib.Path, groups: dict[str, dict[str, str]]) -> None:
    """Write Tempest's configuration there, and how stestr finds its tests."""
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
        # The tests of a class share what it has made.
        'group_regex=([^\\.]*\\.)*\n', 'utf-8')


def outcomes(folder: pathlib.Path) -> list[Outcome]:
    """How the tests of the last run ended."""
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
    """Of reasons for which a test may be skipped, and of tests that are not played at all: lines
    of a file, which documents include.
    """
    lines = [line.split('  #')[0].strip() for line in SKIPS.read_text('utf-8').splitlines()
             if line.strip() and not line.startswith('#')]
    return ([line for line in lines if not line.startswith('!')],
            [line[1:] for line in lines if line.startswith('!')])


def refused(found: list[Outcome]) -> Iterator[str]:
    """Failures, and skips for a reason that is not listed."""
    known = [re.compile(pattern) for pattern in patterns()[0]]
    for one in found:
        if one.status == 'skip':
            text = f'{one.name}: {one.reason}'
            if not any(pattern.search(text) for pattern in known):
                yield f'{one.name} skipped: {one.reason}'
        elif one.status not in ('success', 'xfail'):
            yield one.name


def main() -> int:
    """Run; 0 if all passed."""
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
