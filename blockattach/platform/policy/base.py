"""Base rules, to which the default policies refer: administrator, member and reader.

Names and check strings are those of Cinder, so that policy files written for Cinder have the same
effect.
"""
from typing import Self

from oslo_policy import policy

ADMIN = 'rule:admin_api'
MEMBER = 'rule:xena_system_admin_or_project_member'
READER = 'rule:xena_system_admin_or_project_reader'

CONTEXT_IS_ADMIN = 'context_is_admin'


class Rule(str):
    """Name of a policy rule, with its documented default and API operations.

    Each operation is written as ``METHOD path``.
    """

    default: policy.DocumentedRuleDefault

    def __new__(cls, name: str, default: str, description: str, *operations: str) -> Self:
        """Create a rule.

        `blockattach.storage.policy.rules` collects the rules that are assigned to names of that
        module.
        """
        rule = super().__new__(cls, name)
        rule.default = policy.DocumentedRuleDefault(name, default, description, [
            {'method': method, 'path': path}
            for method, path in (operation.split(' ', 1) for operation in operations)])
        return rule

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Reduce the rule to its name, so that a copy is a plain string."""
        return str, (str(self),)


def action(prefix: str, default: str, name: str, description: str) -> Rule:
    """Return the rule of a volume action, named ``prefix:name``."""
    return Rule(f'{prefix}:{name}', default, description,
                f'POST /volumes/{{volume_id}}/action (os-{name})')


RULES = (
    policy.RuleDefault(
        CONTEXT_IS_ADMIN, 'role:admin',
        description='Decides whether the caller is an administrator (is_admin:True). '
                    'Administrators can access the resources of all projects.'),
    policy.RuleDefault(
        'admin_api', 'is_admin:True or (role:admin and is_admin_project:True)',
        description='Default rule for administrative APIs.'),
    policy.RuleDefault(
        'admin_or_owner',
        'is_admin:True or (role:admin and is_admin_project:True) or project_id:%(project_id)s',
        description='Administrators, and all users of the project regardless of their roles. No '
                    'rule uses this rule by default.'),
    policy.RuleDefault(
        'xena_system_admin_or_project_member',
        '(role:admin) or (role:member and project_id:%(project_id)s)',
        description='Default rule for APIs that modify resources of a project.'),
    policy.RuleDefault(
        'xena_system_admin_or_project_reader',
        '(role:admin) or (role:reader and project_id:%(project_id)s)',
        description='Default rule for APIs that only read resources of a project.'),
    policy.RuleDefault(
        'xena_system_admin_or_owner', '(role:admin) or (project_id:%(project_id)s)',
        description='Administrators, and all users of the project. No rule uses this rule by '
                    'default.'),
)
