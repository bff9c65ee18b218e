"""Policy enforcement with cached decisions.

oslo.policy takes 70 microseconds for a rule of this service, and a request needs several
decisions. The default rules use few facts about a caller: the roles, the roles of the service
token, whether the object belongs to the project of the caller, and whether the caller is an
administrator (``is_admin``, ``is_admin_project``). A decision is cached under exactly these facts.
A rule of an operator that uses other facts (``user_id``, ``domain_id``, a remote check) is
evaluated each time.

Policy files are read at start, by `Enforcer.reload` (SIGHUP), and after they have changed, which
is checked at most once per second.
"""
import difflib
import functools
import logging
import os
import re
import threading
import warnings
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from oslo_config import cfg
from oslo_policy import opts as policy_options
from oslo_policy import policy

from blockattach.platform import clock as clocks
from blockattach.platform import context as request_context
from blockattach.platform import errors
from blockattach.platform.conf import changing
from blockattach.platform.log import fields
from blockattach.platform.policy import base

LOG = logging.getLogger(__name__)

Rules = Sequence[policy.RuleDefault]

_CHECK = re.compile(r'[^\s()]+:(?:%\([^)]*\)s|[^\s()])+')
_FACTS = frozenset(('role', 'is_admin', 'is_admin_project', 'service_roles'))
_OWNERSHIP = 'project_id:%(project_id)s'
_SECONDS_BETWEEN_LOOKS = 1.0
_MOST_DECISIONS = 10000
"""Maximum number of cached decisions.

Without an identity service a client may send any roles, so the number of decisions is unbounded.
"""
_REFERENCE = re.compile(r'\brule:([^\s()]+)')


class _Rules:
    def __init__(self, conf: cfg.ConfigOpts, defaults: Rules) -> None:
        self.engine = policy.Enforcer(conf)
        # Rules whose defaults differ from Cinder's are documented. A warning for each rule in
        # every process would only hide important warnings.
        self.engine.suppress_default_change_warnings = True
        self.engine.register_defaults(defaults)
        self.engine.load_rules(force_reload=True)
        # Fail on undefined and cyclic references between rules.
        self.engine.check_rules(raise_on_violation=True)
        # From now on enforce() must not read files.
        self.engine.use_conf = False
        texts = {name: str(check) for name, check in self.engine.rules.items()}
        self.kept = frozenset(name for name in texts if asks_little(name, texts))
        self.decide = functools.lru_cache(_MOST_DECISIONS)(self._decide)

    def _decide(self, rule: str, owner: bool, is_admin: bool, is_admin_project: bool,
                roles: tuple[str, ...], service_roles: tuple[str, ...]) -> bool:
        """Evaluate a rule with the given facts only.

        :param owner: True if the object belongs to the project of the caller
        """
        # Constant projects, so that one decision serves all projects.
        return bool(self.engine.enforce(rule, {'project_id': 'own' if owner else 'another'}, {
            'project_id': 'own', 'is_admin': is_admin, 'is_admin_project': is_admin_project,
            'roles': roles, 'service_roles': list(service_roles)}))


def asks_little(name: str, texts: Mapping[str, str], seen: frozenset[str] = frozenset()) -> bool:
    """Return True if the decisions of a rule can be cached.

    The rule, and the rules to which it refers, must use only the facts that the module docstring
    lists.

    :param texts: check strings by rule name
    :param seen: rules that are already being checked, to stop at cycles
    """
    for check in _CHECK.findall(texts.get(name, '')):
        kind, _, match = check.partition(':')
        if kind == 'rule':
            little = match in seen or asks_little(match, texts, seen | {match})
        else:
            little = check == _OWNERSHIP or (kind in _FACTS and '%(' not in match)
        if not little:
            return False
    return True


class Enforcer:
    """Policy enforcer. Safe to use from several threads."""

    def __init__(self, conf: cfg.ConfigOpts, defaults: Rules,
                 clock: clocks.Clock | None = None) -> None:
        """Read the defaults and the policy files, which override the defaults.

        :param defaults: all rules that callers may check
        :raises ConfigurationError: a policy file cannot be read or is malformed
        """
        policy_options.set_defaults(conf)
        self._conf = conf
        self._defaults = defaults
        self._clock = clock or clocks.Clock()
        self._looking = threading.Lock()
        self._looked_at = self._clock.monotonic()
        self._marks = self._mark()
        self._wrong: str | None = None
        self._rules = self._read()

    def wrong(self) -> str | None:
        """Return the reason why changed policy files cannot be read, or None if they were read."""
        self._look()
        return self._wrong

    def _read(self) -> _Rules:
        try:
            for path in _policy_files(self._conf):
                _check_file(path)
            with warnings.catch_warnings():
                warnings.simplefilter('ignore', DeprecationWarning)
                read = _Rules(self._conf, self._defaults)
            for unknown in unknown_rules(self._conf, self._defaults):
                LOG.warning('Ignoring unknown policy rule%s', fields(
                    path=unknown.path, rule=unknown.name, nearest=unknown.nearest))
            return read
        except (ValueError, OSError, cfg.Error, policy.InvalidDefinitionError) as failure:
            raise errors.ConfigurationError(
                reason=f'cannot read the policy files: {" ".join(str(failure).split())}'
            ) from failure

    def _mark(self) -> changing.Marks:
        """Return a value that changes with the policy files; empty if a folder cannot be read."""
        try:
            return changing.marks(_policy_files(self._conf))
        except OSError:
            # The reader of the files reports the error.
            return ()

    def _look(self) -> None:
        # Other threads use the current rules while one thread reads the files.
        if self._clock.monotonic() - self._looked_at < _SECONDS_BETWEEN_LOOKS or (
                not self._looking.acquire(blocking=False)):
            return
        try:
            self._looked_at = self._clock.monotonic()
            if self._mark() != self._marks:
                self.reload()
        finally:
            self._looking.release()

    def reload(self) -> None:
        """Read the policy files again. After a failure, the previous rules stay in force.
        """
        # Taken before the files are read, so that a file that changes meanwhile is read again.
        self._marks = self._mark()
        try:
            self._rules = self._read()
            self._wrong = None
        except errors.ConfigurationError as failure:
            self._wrong = reason = str(failure)
        else:
            LOG.info('Policy reloaded')
            return
        # Logged without the exception, because its text is the reason.
        LOG.error('Failed to reload policy, keeping the previous one%s', fields(reason=reason))

    @property
    def kept_decisions(self) -> int:
        """Number of cached decisions."""
        return self._rules.decide.cache_info().currsize

    def knows(self, rule: str) -> bool:
        """Return True if a rule with this name is registered."""
        return rule in self._rules.engine.registered_rules

    def is_admin(self, caller: request_context.RequestContext) -> bool:
        """Return True if the caller is an administrator by the rule ``context_is_admin``.

        This is the first check of each request, and detects changed policy files.
        """
        self._look()
        return self.allowed(caller, base.CONTEXT_IS_ADMIN)

    def allowed(self, caller: request_context.RequestContext, rule: str,
                target_project_id: str | None = None) -> bool:
        """Return True if a rule permits the caller.

        :param target_project_id: project of the object; None for the project of the caller
        :raises KeyError: the rule is not registered
        """
        current = self._rules
        if rule not in current.engine.registered_rules:
            raise KeyError(rule)
        owner = target_project_id in (None, caller.project_id)
        if rule in current.kept:
            return current.decide(rule, owner, bool(caller.is_admin), caller.is_admin_project,
                                  tuple(caller.roles), tuple(caller.service_roles))
        return bool(current.engine.enforce(
            rule, {'project_id': caller.project_id if owner else target_project_id},
            {**caller.to_policy_values(), 'is_admin': bool(caller.is_admin)}))

    def authorize(self, caller: request_context.RequestContext, rule: str,
                  target_project_id: str | None = None) -> None:
        """Raise NotAuthorized if a rule does not permit the caller.

        :param target_project_id: project of the object; None for the project of the caller
        :raises NotAuthorized: the rule denies the operation
        :raises KeyError: the rule is not registered
        """
        if not self.allowed(caller, rule, target_project_id):
            raise errors.NotAuthorized(rule=rule)


class Unknown(NamedTuple):
    """Rule of a policy file whose name is not a policy, most often because of a misspelling.

    ``nearest`` is the existing policy with the most similar name; empty if there is none.
    """

    path: str
    name: str
    nearest: str

    def __str__(self) -> str:
        meant = f' (did you mean {self.nearest}?)' if self.nearest else ''
        return f'{self.name} in {self.path} is not a policy{meant}'


def _policy_files(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield the paths of the existing policy files, in the order in which they are read."""
    group = conf.oslo_policy
    for place in map(conf.find_file, (group.policy_file, *group.policy_dirs)):
        if place is None:
            continue
        # Like oslo.policy, which reads the files of a folder in this order and skips hidden ones.
        if os.path.isdir(place):
            yield from sorted(entry.path for entry in os.scandir(place)
                              if entry.is_file() and not entry.name.startswith('.'))
        else:
            yield place


def unknown_rules(conf: cfg.ConfigOpts, rules: Iterable[policy.RuleDefault]) -> list[Unknown]:
    """Return the rules of the policy files that are neither policies nor used by other rules.

    :param rules: existing policies
    :raises ValueError: a file does not map rule names to checks
    :raises OSError: a file cannot be read
    """
    known = set()
    for rule in rules:
        known.add(rule.name)
        # oslo.policy also applies a rule under its former name.
        if rule.deprecated_rule is not None:
            known.add(rule.deprecated_rule.name)
    said = [(path, _parse(path)) for path in _policy_files(conf)]
    referred = {name for _, checks in said for text in checks.values()
                for name in _REFERENCE.findall(str(text))}
    return [Unknown(path, name, next(iter(difflib.get_close_matches(name, sorted(known), 1)), ''))
            for path, checks in said for name in checks
            if name not in known and name not in referred]


def _check_file(path: str) -> None:
    """Check that a file maps rule names to valid checks.

    :raises ValueError: the file is malformed, or contains a malformed rule
    :raises OSError: the file cannot be read
    """
    # The errors of oslo.policy do not name the file.
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
