"""Rules for user messages."""
from blockattach.policy import base

GET = 'message:get'
GET_ALL = 'message:get_all'
DELETE = 'message:delete'

RULES = (
    base.Rule(GET_ALL, base.READER, 'List user messages.', 'GET /messages'),
    base.Rule(GET, base.READER, 'Show a user message.', 'GET /messages/{message_id}'),
    base.Rule(DELETE, base.MEMBER, 'Delete a user message.', 'DELETE /messages/{message_id}'),
)
