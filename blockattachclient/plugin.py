"""Plugin of openstackclient. The commands are the entry points ``openstack.blockattach.v1``."""
import argparse
from typing import Any

from blockattachclient import api

API_NAME = 'blockattach'
API_VERSION_OPTION = 'os_blockattach_api_version'
API_VERSIONS = ('1',)
DEFAULT_API_VERSION = '1'


def make_client(instance: Any) -> api.Api:
    """Return the client, which commands find as ``app.client_manager.blockattach``."""
    return api.Api(instance.sdk_connection)


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add no global options, because each request has the versions that it needs."""
    return parser
