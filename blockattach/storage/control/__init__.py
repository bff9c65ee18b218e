"""Operations on volumes, snapshots and attachments, independent of HTTP.

The API and the RPC endpoint for consumers call the operations after the authorization of a
request.
"""
