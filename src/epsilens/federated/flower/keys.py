# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates of a federation: made once, kept in the state folder, read by their owner alone."""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from epsilens.data.private_files import make_private_folder, writable, write_private
from epsilens.errors import InputError

CA_CERTIFICATE, SERVER_CERTIFICATE, SERVER_KEY = "ca.pem", "server.pem", "server.key"
CA_KEY = "ca.key"
SITE_KEY, SITE_PUBLIC_KEY = "site.key", "site.pub"
DAYS_OF_CA, DAYS_OF_CERTIFICATE = 3650, 825
LARGEST_KEY_FILE = 2**14
_PURPOSES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def secret_in(folder: Path, name: str) -> bytes:
    """Return the secret of a folder, drawn when it is asked for first.

    Parameters
    ----------
    folder : Path
    name : str
        Name of its file.
    """
    path = folder / name
    if not path.exists():
        write_private(path, secrets.token_hex(32).encode("ascii"))
    return path.read_bytes()


# --- The server's certificate ---


def make_certificates(folder: Path, names: Iterable[str]) -> None:
    """Make an authority and a certificate for the server, unless a valid one for these names is there.

    Parameters
    ----------
    folder : Path
        Gets `ca.pem`, which every site needs, and `server.pem` with its key.
    names : iterable of str
        Host names and addresses by which sites reach the server; this machine is always among them.
    """
    wanted = sorted({*names, "localhost", "127.0.0.1", "::1"})
    if (folder / SERVER_CERTIFICATE).exists() and _is_good(folder / SERVER_CERTIFICATE, wanted):
        return
    if (folder / CA_CERTIFICATE).exists() and not (folder / CA_KEY).exists():
        raise InputError(
            "the server's certificate must name every address of the server and be valid for another "
            "month, and it was made elsewhere. Give new files to `--tls`."
        )
    ca_key, ca = _authority(folder)
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "epsilens federation server")])
    builder = _builder(name, ca.subject, key.public_key(), ca_key, DAYS_OF_CERTIFICATE)
    certificate = (
        builder.add_extension(x509.SubjectAlternativeName([_general(n) for n in wanted]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA384())
    )
    write_private(folder / SERVER_KEY, _key_text(key))
    write_private(folder / SERVER_CERTIFICATE, _certificate_text(certificate))


def _authority(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    if (folder / CA_CERTIFICATE).exists() and (folder / CA_KEY).exists():
        key = serialization.load_pem_private_key((folder / CA_KEY).read_bytes(), None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key, x509.load_pem_x509_certificate((folder / CA_CERTIFICATE).read_bytes())
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "epsilens federation")])
    certificate = (
        _builder(name, name, key.public_key(), key, DAYS_OF_CA)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        .sign(key, hashes.SHA384())
    )
    write_private(folder / CA_KEY, _key_text(key))
    write_private(folder / CA_CERTIFICATE, _certificate_text(certificate))
    return key, certificate


def _usage(*purposes: str) -> x509.KeyUsage:
    """Return what a key may be used for, and nothing else (RFC 5280, 4.2.1.3)."""
    return x509.KeyUsage(**{name: name in purposes for name in _PURPOSES})


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    days: int,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )


def _is_good(path: Path, names: list[str]) -> bool:
    """Return whether a certificate has these names and is valid for another month."""
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return left > datetime.timedelta(days=30) and {_general(n) for n in names} <= set(found)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_text(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _certificate_text(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


# --- A site's key ---


def make_site_key(folder: Path) -> Path:
    """Make the key pair by which a site is known, unless it is there; return the public one's file.

    Parameters
    ----------
    folder : Path
        Gets `site.key`, which stays there, and `site.pub`, which goes to the coordinator.

    Raises
    ------
    InputError
        If the folder cannot be made or written, or holds a key that is none.
    """
    public = folder / SITE_PUBLIC_KEY
    with writable(folder):
        if not (folder / SITE_KEY).exists():
            make_private_folder(folder)
            text = ec.generate_private_key(ec.SECP384R1()).private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.OpenSSH,
                serialization.NoEncryption(),
            )
            write_private(folder / SITE_KEY, text)
            public.unlink(missing_ok=True)
        if not public.exists():
            # The coordinator knows the site by this key; the public half follows from it.
            write_private(public, _openssh(_private_key(folder / SITE_KEY).public_key()) + b"\n")
    return public


def _private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_ssh_private_key(path.read_bytes(), None)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(
            f"{path.name} must hold the site's private key, but does not. Bring it back from a backup, or move "
            "it away and register a new one."
        )
    return key


def _openssh(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)


def read_public_key(path: str | Path) -> str:
    """Read a site's public key and return it without its comment.

    Raises
    ------
    InputError
        If the file holds no public key on the curve P-384; a private key is refused as such.
    """
    wrong = (
        "the site's key must be a public one on the curve P-384 in OpenSSH's form, as `epsilens federate "
        "key` writes it, but the file holds none."
    )
    try:
        with open(path, "rb") as stream:
            text = stream.read(LARGEST_KEY_FILE)
    except OSError as error:
        raise InputError(
            f"the site's public key must be a file that can be read, got {type(error).__name__}."
        ) from None
    if b"PRIVATE KEY" in text:
        raise InputError(
            "the file holds a private key, which must not leave its site. Send site.pub."
        )
    try:
        key = serialization.load_ssh_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(wrong) from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise InputError(wrong)
    return _openssh(key).decode("ascii")


def public_key_bytes(public_key: str) -> bytes:
    """Return a public key as Flower registers it."""
    key = serialization.load_ssh_public_key(public_key.encode("ascii"))
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
