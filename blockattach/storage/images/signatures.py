"""Verification of image signatures, which are the properties ``img_signature...`` of Glance."""
import base64
import binascii
from collections.abc import Callable

from cryptography import exceptions
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric import utils

from blockattach.storage import errors
from blockattach.storage.domain import images

_METHODS: dict[str, Callable[[], hashes.HashAlgorithm]] = {
    'SHA-224': hashes.SHA224, 'SHA-256': hashes.SHA256, 'SHA-384': hashes.SHA384,
    'SHA-512': hashes.SHA512}
_RSA, _DSA, _ECC = 'RSA-PSS', 'DSA', 'ECC_'
_PARTS = tuple(f'{images.SIGNATURE}{part}' for part in (
    '', '_hash_method', '_key_type', '_certificate_uuid'))


class Signature:
    """Signature of an image, to be verified while the data is received."""

    def __init__(self, image: images.Image, certificate: Callable[[str], bytes]) -> None:
        """Read the signature from the properties of an image.

        :param certificate: function that returns the certificate (DER) with an id
        :raises ImageSignatureWrong: if the properties do not form a valid signature
        :raises ConfigurationError: if certificates cannot be fetched
        """
        self._image = image
        signature, method, self._type, certificate_id = (
            image.properties.get(name) or '' for name in _PARTS)
        if not (signature and certificate_id and method in _METHODS):
            raise self._wrong('the signature properties are incomplete')
        self._method = _METHODS[method]()
        self._hash = hashes.Hash(self._method)
        try:
            self._signature = base64.b64decode(signature, validate=True)
            self._key = x509.load_der_x509_certificate(certificate(certificate_id)).public_key()
        except (binascii.Error, ValueError) as exc:
            raise self._wrong('the signature or certificate is malformed') from exc

    def add(self, piece: bytes) -> None:
        """Add a received piece of the data."""
        self._hash.update(piece)

    def check(self) -> None:
        """Check that the signature matches the received data.

        :raises ImageSignatureWrong: if the signature does not match, or the key of the certificate
            has another type
        """
        digest, given = self._hash.finalize(), utils.Prehashed(self._method)
        try:
            if self._type == _RSA and isinstance(self._key, rsa.RSAPublicKey):
                self._key.verify(self._signature, digest, padding.PSS(
                    padding.MGF1(self._method), padding.PSS.MAX_LENGTH), given)
            elif self._type == _DSA and isinstance(self._key, dsa.DSAPublicKey):
                self._key.verify(self._signature, digest, given)
            elif self._type.startswith(_ECC) and isinstance(self._key, ec.EllipticCurvePublicKey) \
                    and self._type.removeprefix(_ECC).lower() == self._key.curve.name:
                self._key.verify(self._signature, digest, ec.ECDSA(given))
            else:
                raise self._wrong(f'the certificate has no key for {self._type or "a signature"}')
        except exceptions.InvalidSignature as exc:
            raise self._wrong('the content does not match the signature') from exc

    def _wrong(self, reason: str) -> errors.ImageSignatureWrong:
        return errors.ImageSignatureWrong(image_id=self._image.id, reason=reason)
