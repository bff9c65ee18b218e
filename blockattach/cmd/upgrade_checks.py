"""The checks of ``blockattach-status upgrade check``; `CHECKS` lists them."""
from collections.abc import Callable
from typing import NamedTuple

import oslo_messaging
from oslo_config import cfg
from oslo_upgradecheck import common_checks
from oslo_upgradecheck import upgradecheck

from blockattach import errors
from blockattach.cmd import upgrade_database_checks as database_checks
from blockattach.cmd import upgrade_installation
from blockattach.conf import rpc as rpc_conf
from blockattach.conf import unknown_options
from blockattach.policy import files as policy_files
from blockattach.policy import rules
from blockattach.rpc import history
from blockattach.rpc import rabbit

Code = upgradecheck.Code
Result = upgradecheck.Result

_IN_PROCESS = ('inproc', 'fake')


class Replaced(NamedTuple):
    """An option that has another name by now; the old one still counts, for a release."""

    group: str
    name: str
    now: str


REPLACED: tuple[Replaced, ...] = ()


def pin(at: upgrade_installation.Installation) -> Result:
    """Whether ``[rpc] release`` goes with the releases that run."""
    named = rpc_conf.settings(at.conf).release
    try:
        spoken = history.pinned(named)
    except errors.ConfigurationError as exc:
        return Result(Code.FAILURE, f'{exc}.')
    behind = at.expanded and at.behind()
    if spoken is history.RELEASES[-1]:
        return Result(Code.FAILURE, 'Services of an older release run, and [rpc] release does not '
                                    'name it: they would be sent what they do not know.'
                      ) if behind else database_checks.ok()
    if behind:
        return Result(Code.SUCCESS, f'[rpc] release = {named}, as long as an older release runs.')
    return Result(Code.WARNING, f'[rpc] release = {named}: if no process of that release is left, '
                                'not even an API, set it to auto and restart the processes.')


def bus(at: upgrade_installation.Installation) -> Result:
    """Whether the processes can communicate, by queues that survive a node of the broker."""
    settings = rpc_conf.settings(at.conf)
    url = oslo_messaging.TransportURL.parse(at.conf)
    if url.transport in _IN_PROCESS:
        return Result(Code.FAILURE, 'transport_url leads nowhere but into the own process, while '
                                    'the database is shared: separate processes need a broker.'
                      ) if at.engine.dialect.name != 'sqlite' else database_checks.ok()
    if settings.second_transport_url:
        return Result(Code.WARNING, '[rpc] second_transport_url is still set: once every process '
                                    'sends to transport_url, remove it.')
    classic = [name for name in ('rabbit_quorum_queue', 'rabbit_transient_quorum_queue')
               if not _is_true(url.query.get(name, at.conf[rabbit.GROUP][name]))]
    return Result(Code.WARNING, f'{", ".join(classic)}: off. Such queues do not outlive their '
                                'node; see "From classic to quorum queues" in the guide of '
                                'upgrades.') if classic else database_checks.ok()


def options(at: upgrade_installation.Installation) -> Result:
    """Whether the files use names of options that have gone out of use, or never were."""
    found = [str(one) for one in unknown_options.find(at.conf)]
    for option in REPLACED:
        at.conf.register_opt(cfg.StrOpt(option.name), group=option.group)
        if at.conf[option.group][option.name] is not None:
            found.append(f'[{option.group}] {option.name} is called {option.now} now')
    return Result(Code.WARNING, f'{"; ".join(found)}.') if found else database_checks.ok()


def policy(at: upgrade_installation.Installation) -> Result:
    """Whether the policy files are YAML, and every rule in them is asked for."""
    result = common_checks.check_policy_json(upgradecheck.UpgradeCommands(), at.conf)
    if result.code is not Code.SUCCESS:
        return result
    try:
        found = policy_files.unknown(at.conf, rules.list_rules())
    except (ValueError, OSError) as exc:
        return Result(Code.FAILURE, f'{" ".join(str(exc).split())}.')
    return Result(Code.WARNING, f'{"; ".join(map(str, found))}.') if found else result


Check = Callable[[upgrade_installation.Installation], Result]

# In the order in which an upgrade goes.
CHECKS: tuple[tuple[str, Check], ...] = (
    ('Schema', database_checks.schema),
    ('Text in the database', database_checks.text),
    ('Sealing keys', database_checks.keys),
    ('Names of options', options),
    ('Policy file', policy),
    ('Message bus', bus),
    ('Services of older releases', database_checks.services),
    ('Release that is spoken', pin),
    ('Rows', database_checks.rows),
    ('What only older releases need', database_checks.contraction),
)


class UpgradeChecks(upgradecheck.UpgradeCommands):
    """The checks of one installation, as oslo.upgradecheck runs them."""

    def __init__(self, installation: upgrade_installation.Installation) -> None:
        self._upgrade_checks = tuple((name, _bound(check, installation))
                                     for name, check in CHECKS)


def _bound(check: Check, installation: upgrade_installation.Installation,
           ) -> Callable[[UpgradeChecks], Result]:
    def run(_commands: UpgradeChecks) -> Result:
        return check(installation)
    return run


def _is_true(value: object) -> bool:
    return str(value).strip().lower() in ('true', '1', 'yes', 'on')
