"""Encryption beyond this host: each process has a certificate of its own, made when it begins to
listen, and clients know it by its fingerprint from the directory. So there is no authority to run,
and nothing that expires: a certificate ends with its process.
"""
import datetime
import hashlib
import hmac
import os
import socket
import ssl

from blockattach.platform import clock as clocks

_NAME = 'blockattach-rpc'
_DAYS = 36500
_SKEW = datetime.timedelta(days=1)


class Impostor(ssl.SSLError):
    """Somebody else listens there."""


def make_identity(clock: clocks.Clock) -> tuple[ssl.SSLContext, str]:
    """A new certificate: what a server wraps connections with, and the fingerprint."""
    # Large, and needed by those alone who listen beyond this host.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), clock.utcnow()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now - _SKEW,
        now + datetime.timedelta(days=_DAYS)).sign(key, hashes.SHA256())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # A ticket would come unasked on a connection that shall be quiet between two requests.
    context.num_tickets = 0
    _load(context, made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()))
    return context, hashlib.sha256(
        made.public_bytes(serialization.Encoding.DER)).hexdigest()


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """From a file that is in memory only, as there is no other way than a path."""
    with os.fdopen(os.memfd_create(_NAME), 'wb') as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(f'/proc/self/fd/{file.fileno()}')


def client_context() -> ssl.SSLContext:
    """For `connect`. No authority is asked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def connect(context: ssl.SSLContext, connection: socket.socket,
            fingerprint: str) -> ssl.SSLSocket:
    """Encrypt a connection to the owner of a certificate; its timeout is that of the handshake.

    :raises Impostor: it is somebody else's; nothing was sent
    :raises OSError: there is no handshake
    """
    made = context.wrap_socket(connection)
    found = hashlib.sha256(made.getpeercert(binary_form=True) or b'').hexdigest()
    if not hmac.compare_digest(found, fingerprint):
        made.close()
        raise Impostor('the certificate does not match the fingerprint of the server')
    return made
