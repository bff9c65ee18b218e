"""Tempest service client of attachments, which negotiates the blockattach extension."""
import json
import urllib.parse
from typing import Any

from tempest.lib.common import rest_client

VERSIONS = 'volume 3.54, blockattach 1.0'


class AttachmentsClient(rest_client.RestClient):
    """Client of attachments. Every method checks the status code and returns the body."""

    def list_attachments(self, detail: bool = False, **filters: Any) -> Any:
        """List attachments. The extension adds the filter ``host``."""
        path = 'attachments/detail' if detail else 'attachments'
        return self._ask(200, 'GET', f'{path}?{urllib.parse.urlencode(filters)}')

    def show_attachment(self, attachment_id: str) -> Any:
        return self._ask(200, 'GET', f'attachments/{attachment_id}')

    def create_attachment(self, volume_id: str, **fields: Any) -> Any:
        return self._ask(200, 'POST', 'attachments',
                         {'attachment': {'volume_uuid': volume_id, **fields}})

    def update_attachment(self, attachment_id: str, connector: dict[str, Any]) -> Any:
        return self._ask(200, 'PUT', f'attachments/{attachment_id}',
                         {'attachment': {'connector': connector}})

    def complete_attachment(self, attachment_id: str) -> Any:
        return self._ask(204, 'POST', f'attachments/{attachment_id}/action',
                         {'os-complete': None})

    def delete_attachment(self, attachment_id: str, force: bool = False) -> Any:
        """Delete an attachment.

        :param force: delete the attachment regardless of errors of its backend
        """
        return self._ask(200, 'DELETE', f'attachments/{attachment_id}'
                                        + ('?force=true' if force else ''))

    def _ask(self, status: int, method: str, path: str, body: Any = None) -> Any:
        response, text = self.request(
            method, path, extra_headers=True, headers={'OpenStack-API-Version': VERSIONS},
            body=None if body is None else json.dumps(body))
        self.expected_success(status, response.status)
        return rest_client.ResponseBody(response, json.loads(text) if text else {})
