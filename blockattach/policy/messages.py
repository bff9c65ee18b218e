"""Rules for user messages."""
from oslo_policy import policy

from blockattach.policy import base

GET = 'message:get'
GET_ALL = 'message:get_all'
DELETE = 'message:delete'

RULES = (
    policy.DocumentedRuleDefault(
        GET_ALL, base.READER, 'List user messages.', [{'method': 'GET', 'path': '/messages'}]),
    policy.DocumentedRuleDefault(
        GET, base.READER, 'Show a user message.',
        [{'method': 'GET', 'path': '/messages/{message_id}'}]),
    policy.DocumentedRuleDefault(
        DELETE, base.MEMBER, 'Delete a user message.',
        [{'method': 'DELETE', 'path': '/messages/{message_id}'}]),
)
