"""Policy rules of user messages."""
from blockattach.platform.policy import base

GET_ALL = base.Rule('message:get_all', base.READER, 'List user messages.', 'GET /messages')
GET = base.Rule('message:get', base.READER, 'Show a user message.', 'GET /messages/{message_id}')
DELETE = base.Rule('message:delete', base.MEMBER, 'Delete a user message.',
                   'DELETE /messages/{message_id}')
DETAIL = base.Rule('blockattach:message_detail', base.ADMIN, 'Show the details of a user message, '
                   'including the error and the pool or host.',
                   'GET /messages', 'GET /messages/{message_id}')
