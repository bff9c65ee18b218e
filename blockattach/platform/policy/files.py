"""Policy files of the operator: [oslo_policy] policy_file and the files in policy_dirs."""
import difflib
import os
import re
from collections.abc import Iterable
from collections.abc import Iterator
from typing import NamedTuple

from oslo_config import cfg
from oslo_policy import policy

_REFERENCE = re.compile(r'\brule:([^\s()]+)')


class Unknown(NamedTuple):
    """Rule in a policy file that does not exist, most often because of a misspelt name.

    ``nearest`` is the existing policy with the most similar name; empty if there is none.
    """

    path: str
    name: str
    nearest: str

    def __str__(self) -> str:
        meant = f' (did you mean {self.nearest}?)' if self.nearest else ''
        return f'{self.name} in {self.path} is not a policy{meant}'


def found(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield the paths of the existing policy files, in the order in which they are read."""
    group = conf.oslo_policy
    for place in map(conf.find_file, (group.policy_file, *group.policy_dirs)):
        if place is None:
            continue
        if os.path.isdir(place):
            yield from sorted(entry.path for entry in os.scandir(place)
                              if entry.is_file() and not entry.name.startswith('.'))
        else:
            yield place


def unknown(conf: cfg.ConfigOpts, rules: Iterable[policy.RuleDefault]) -> list[Unknown]:
    """Return the rules in policy files that are neither policies nor referred to by another rule.

    :param rules: existing policies
    :raises ValueError: a file does not map rule names to checks
    :raises OSError: a file cannot be read
    """
    known = set()
    for rule in rules:
        known.add(rule.name)
        if rule.deprecated_rule is not None:
            known.add(rule.deprecated_rule.name)
    said = [(path, _parse(path)) for path in found(conf)]
    referred = {name for _, checks in said for text in checks.values()
                for name in _REFERENCE.findall(str(text))}
    return [Unknown(path, name, next(iter(difflib.get_close_matches(name, sorted(known), 1)), ''))
            for path, checks in said for name in checks
            if name not in known and name not in referred]


def check(path: str) -> None:
    """Check that a file maps rule names to valid checks.

    The errors name the file, which those of oslo.policy do not.

    :raises ValueError: the file is malformed, or contains a malformed rule
    :raises OSError: the file cannot be read
    """
    for name, text in _parse(path).items():
        if not isinstance(name, str) or not isinstance(text, str | list):
            raise ValueError(f'{path}: rule {name} is not a string')
        # oslo.policy turns a malformed rule into one that silently denies everything.
        if text != '!' and str(policy.RuleDefault(name, text).check) == '!':
            raise ValueError(f'{path}: rule {name} is malformed: {text}')


def _parse(path: str) -> dict[str, str]:
    with open(path, encoding='utf-8') as file:
        try:
            said = policy.parse_file_contents(file.read())
        except ValueError as exc:
            raise ValueError(f'{path}: {exc}') from exc
    if not isinstance(said, dict):
        raise ValueError(f'{path}: the file does not map rules to checks')
    return said
