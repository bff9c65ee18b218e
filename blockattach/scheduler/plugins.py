"""Filters and weighers by name: our own, then what others have installed as entry points."""
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

from stevedore import driver
from stevedore import exception

from blockattach import errors

Function = TypeVar('Function')


def find(group: str, own: Mapping[str, Function], name: str) -> Function | Any:
    """The function of that name.

    :param group: entry points where it is looked for if it is none of our own
    :raises ConfigurationError: there is none, or it cannot be loaded
    """
    if name in own:
        return own[name]
    try:
        return driver.DriverManager(group, name, warn_on_missing_entrypoint=False).driver
    except exception.NoMatches as error:
        known = ', '.join(sorted(own))
        raise errors.ConfigurationError(
            reason=f'cannot find {name} among the entry points {group}; built in are: '
                   f'{known}') from error
    except Exception as error:
        # A module from elsewhere: what goes wrong in it may be anything.
        raise errors.ConfigurationError(
            reason=f'cannot load {name} of the entry points {group}: {error}') from error
