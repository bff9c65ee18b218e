"""Plugin of openstackclient for the commands in the entry points ``openstack.blockattach.v1``."""
import argparse
from typing import Any

from blockattachclient import api

API_NAME = 'blockattach'
API_VERSION_OPTION = 'os_blockattach_api_version'
API_VERSIONS = ('1',)
DEFAULT_API_VERSION = '1'


def make_client(instance: Any) -> api.Api:
    """Return the API client, which openstackclient stores as ``client_manager.blockattach``."""
    return api.Api(instance.sdk_connection)


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return the parser unchanged. No option for an API version is needed.

    Each request selects the version that it requires.
    """
    return parser
