"""The operator's files of rules: [oslo_policy] policy_file and what lies in policy_dirs."""
import os
from collections.abc import Iterator

from oslo_config import cfg
from oslo_policy import policy


def found(conf: cfg.ConfigOpts) -> Iterator[str]:
    """The files that are there, in the order in which they are read."""
    group = conf.oslo_policy
    for place in map(conf.find_file, (group.policy_file, *group.policy_dirs)):
        if place is None:
            continue
        if os.path.isdir(place):
            yield from sorted(entry.path for entry in os.scandir(place)
                              if entry.is_file() and not entry.name.startswith('.'))
        else:
            yield place


def check(path: str) -> None:
    """Return if a file maps names of rules to checks. oslo.policy would not say which file it was.

    :raises ValueError: it does not
    :raises OSError: it cannot be read
    """
    with open(path, encoding='utf-8') as file:
        try:
            said = policy.parse_file_contents(file.read())
        except ValueError as exc:
            raise ValueError(f'{path}: {exc}') from exc
    if not isinstance(said, dict):
        raise ValueError(f'{path}: it does not map rules to checks')
    for name, text in said.items():
        if not isinstance(name, str) or not isinstance(text, str | list):
            raise ValueError(f'{path}: rule {name} is no text')
        # A rule that is not understood would be taken for "nobody", and nobody be told why.
        if text != '!' and str(policy.RuleDefault(name, text).check) == '!':
            raise ValueError(f'{path}: rule {name} is malformed: {text}')
