"""The personas that rules are written with. Names and strings are Cinder's, so that an operator's
policy file means the same here."""
from oslo_policy import policy

ADMIN = 'rule:admin_api'
MEMBER = 'rule:xena_system_admin_or_project_member'
READER = 'rule:xena_system_admin_or_project_reader'

CONTEXT_IS_ADMIN = 'context_is_admin'


class Rule(policy.DocumentedRuleDefault):
    """The rule of operations of the API, each written ``METHOD path``."""

    def __init__(self, name: str, default: str, description: str, *operations: str) -> None:
        super().__init__(name, default, description, [
            {'method': method, 'path': path}
            for method, path in (operation.split(' ', 1) for operation in operations)])


RULES = (
    policy.RuleDefault(
        CONTEXT_IS_ADMIN, 'role:admin',
        description='Requests that count as those of an administrator (is_admin:True): they see '
                    'the objects of every project.'),
    policy.RuleDefault(
        'admin_api', 'is_admin:True or (role:admin and is_admin_project:True)',
        description='Default of what only administrators may do.'),
    policy.RuleDefault(
        'admin_or_owner',
        'is_admin:True or (role:admin and is_admin_project:True) or project_id:%(project_id)s',
        description='Any user of the project, with any role. No rule uses it by default.'),
    policy.RuleDefault(
        'xena_system_admin_or_project_member',
        '(role:admin) or (role:member and project_id:%(project_id)s)',
        description='Default of what changes something in a project.'),
    policy.RuleDefault(
        'xena_system_admin_or_project_reader',
        '(role:admin) or (role:reader and project_id:%(project_id)s)',
        description='Default of what only reads something of a project.'),
    policy.RuleDefault(
        'xena_system_admin_or_owner', '(role:admin) or (project_id:%(project_id)s)',
        description='An administrator or anyone of the project. No rule uses it by default.'),
)
