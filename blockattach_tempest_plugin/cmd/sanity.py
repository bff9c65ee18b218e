"""``blockattach-sanity``: Test volume attachments at any Block Storage endpoint."""
import argparse
import os
import pathlib
import re
import signal
import sys
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from importlib import metadata
from types import FrameType
from typing import Any

from keystoneauth1 import exceptions as keystone_exceptions

from blockattach_tempest_plugin import client
from blockattach_tempest_plugin import clouds
from blockattach_tempest_plugin import running

NAME = 'blockattach-sanity'
OK, WRONG, UNUSABLE = 0, 1, 2
SERVICE_TYPE = 'block-storage'
PERSONS = {
    'other': 'a user of another project without the admin role',
    'admin': 'an administrator',
    'reader': 'a read-only user of the same project',
    'service': 'a service user, whose token is sent as X-Service-Token',
}
"""Additional users. Cases that need a missing user are skipped with the name of the user."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(NAME, description=__doc__.split(': ', 1)[1])
    made.add_argument('--version', action='version', version=metadata.version('blockattach'))
    made.add_argument('--os-cloud', default=os.environ.get('OS_CLOUD'), metavar='NAME',
                      help='cloud in clouds.yaml (default: $OS_CLOUD)')
    made.add_argument('--endpoint', metavar='URL',
                      help='URL of the service instead of a cloud, with /v3 and, if the service '
                           'requires it, the project ID')
    made.add_argument('--token', help='token for --endpoint (default: $OS_TOKEN)')
    for name, who in PERSONS.items():
        made.add_argument(f'--{name}-cloud', metavar='NAME', help=f'cloud in clouds.yaml of {who}')
        made.add_argument(f'--{name}-token', metavar='TOKEN',
                          help=f'token for --endpoint of {who}')
    made.add_argument('--type', metavar='TYPE', help='volume type without multiattach')
    made.add_argument('--multiattach-type', metavar='TYPE',
                      help='volume type with multiattach (default: created by the administrator, '
                           'or an existing type)')
    made.add_argument('--only', default='', metavar='REGEX',
                      help='run only the cases whose group, name or sentence matches')
    made.add_argument('--differences', action='store_true',
                      help='also run the cases that only blockattach guarantees to pass, '
                           'against any service')
    made.add_argument('--list', action='store_true', help='list the cases without running them')
    made.add_argument('--json', metavar='FILE', type=pathlib.Path,
                      help='write the result of each case to FILE as JSON')
    made.add_argument('--traces', action='store_true', help='print the tracebacks of failed cases')
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the test cases.

    :returns: 0 if no case failed, 1 if a case failed, 2 if the cases could not run, or 130 if the
        run was interrupted
    """
    options = parser().parse_args(arguments)
    try:
        chosen = running.select(options.only)
    except re.error as exc:
        return _unusable(f'invalid regular expression in --only: {exc}')
    if not chosen:
        return _unusable('no case matches --only')
    if options.list:
        _print_list(chosen)
        return OK
    try:
        cloud = cloud_of(options)
    except (clouds.Unusable, keystone_exceptions.ClientException) as exc:
        return _unusable(str(exc))
    return _run(cloud, chosen, options)


def cloud_of(options: argparse.Namespace) -> clouds.Cloud:
    """Return the service under test and its callers, from the arguments.

    :raises Unusable: the arguments name neither a cloud nor an endpoint, or a cloud is unknown or
        has no Block Storage endpoint
    """
    if options.endpoint:
        member = client.Client(options.endpoint,
                               _fixed(options.token or os.environ.get('OS_TOKEN')))
        # A project ID in the URL belongs to the member. Other callers may have other projects.
        bare = clouds.root(member).rstrip('/')
        tokens: dict[str, client.Token | None] = {
            name: _fixed(text) if (text := getattr(options, f'{name}_token')) else None
            for name in PERSONS}
        callers = {name: client.Client(bare, token) for name, token in tokens.items()
                   if token is not None}
    elif options.os_cloud:
        member = _of_cloud(options.os_cloud)[0]
        found = {name: _of_cloud(text) for name in PERSONS
                 if (text := getattr(options, f'{name}_cloud'))}
        callers = {name: caller for name, (caller, _) in found.items()}
        tokens = {name: token for name, (_, token) in found.items()}
    else:
        raise clouds.Unusable('specify a cloud (--os-cloud) or an endpoint (--endpoint)')
    service = tokens.get('service')
    return clouds.Cloud(
        member, callers.get('other'), callers.get('admin'),
        member.with_service_token(service) if service else None, callers.get('reader'),
        options.type, options.multiattach_type, shows_differences=options.differences)


def _print_list(chosen: Sequence[running.Case]) -> None:
    before = None
    for case in chosen:
        if case.group is not before:
            print(f'{running.title(case.group)}')
            before = case.group
        print(f'  {case.sentence}')
    print(f'{len(chosen)} cases')


def _fixed(token: str | None) -> client.Token:
    return lambda: token


def _of_cloud(name: str) -> tuple[client.Client, client.Token]:
    """Return a client for a cloud in clouds.yaml, and the source of its tokens."""
    from openstack import config
    from openstack import exceptions

    try:
        region = config.OpenStackConfig().get_one(cloud=name)
        session: Any = region.get_session()
        endpoint = session.get_endpoint(
            service_type=SERVICE_TYPE, region_name=region.get_region_name(),
            interface=region.get_interface(SERVICE_TYPE))
    except exceptions.ConfigException as exc:
        raise clouds.Unusable(str(exc)) from exc
    if endpoint is None:
        raise clouds.Unusable(f'the cloud {name} has no Block Storage endpoint')
    get_token: Callable[[], str | None] = session.get_token
    return client.Client(endpoint, get_token), get_token


def _run(cloud: clouds.Cloud, chosen: Sequence[running.Case],
         options: argparse.Namespace) -> int:
    outcomes: list[running.Outcome] = []
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        cloud.prepare()
        running.report(_kept(cloud, chosen, outcomes, options))
    except clouds.Unusable as exc:
        return _unusable(str(exc))
    except AssertionError as exc:
        return _unusable(f'cannot prepare the test resources: {exc}')
    except KeyboardInterrupt:
        print('\ninterrupted', file=sys.stderr)
        return 128 + signal.SIGINT
    finally:
        for left in cloud.close():
            print(f'{NAME}: failed to delete {left}', file=sys.stderr)
        if options.json is not None:
            options.json.write_text(running.as_json(
                outcomes, microversion=cloud.member.version, extension=cloud.extension), 'utf-8')
    return WRONG if any(one.status == running.FAILED for one in outcomes) else OK


def _kept(cloud: clouds.Cloud, chosen: Sequence[running.Case], outcomes: list[running.Outcome],
          options: argparse.Namespace) -> Iterator[running.Outcome]:
    """Yield outcomes as they arrive, and store them for the report of an interrupted run."""
    for outcome in running.play(cloud, chosen, sys.stderr if options.traces else None):
        outcomes.append(outcome)
        yield outcome


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the run like Ctrl-C, so that the created resources are deleted."""
    raise KeyboardInterrupt


def _unusable(text: str) -> int:
    print(f'{NAME}: {text}', file=sys.stderr)
    return UNUSABLE


if __name__ == '__main__':
    sys.exit(main())
