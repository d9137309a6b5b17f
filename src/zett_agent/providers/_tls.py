"""Whom to trust: the operating system's certificate store, and what the environment adds to it."""

from __future__ import annotations

import functools
import logging
import os
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["TlsTrust", "trusting_nobody"]

logger = logging.getLogger("zett_agent.providers")

# Where Linux and BSD distributions keep their bundle, for Pythons whose OpenSSL was built to look elsewhere.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/ca-bundle.pem",
)


@dataclass(frozen=True, slots=True)
class TlsTrust:
    """What the environment adds to the system's certificates; there is no way to turn verification off.

    Attributes:
        file: `SSL_CERT_FILE`.
        directories: `SSL_CERT_DIR`; several are separated like those of `PATH`.
    """

    file: str | None
    directories: str | None

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> TlsTrust:
        """Read the two variables."""
        return cls(environ.get("SSL_CERT_FILE") or None, environ.get("SSL_CERT_DIR") or None)

    def context(self) -> ssl.SSLContext:
        """Return the TLS context. It reads many certificates, so call it in a thread.

        Raises:
            OSError: A certificate file is broken or cannot be read (`ssl.SSLError` among them).
        """
        return _context(self, _modified(self.file))


def trusting_nobody() -> ssl.SSLContext:
    """Return a context for connections that are never encrypted: it costs nothing and accepts nobody."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _modified(file: str | None) -> int | None:
    try:
        return Path(file).stat().st_mtime_ns if file is not None else None
    except OSError:
        return None


# Shared by all providers of the process; a certificate file that was exchanged is read again.
@functools.lru_cache(maxsize=4)
def _context(trust: TlsTrust, modified: int | None) -> ssl.SSLContext:
    if sys.platform in ("darwin", "win32"):
        import truststore  # verifies with the system's own functions

        context: ssl.SSLContext = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    else:
        # The same certificates that truststore takes here, which however reads them again for each
        # connection, on the event loop.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _load_system_store(context)
    if trust.file is not None:
        if modified is not None:
            context.load_verify_locations(cafile=trust.file)
        else:
            logger.warning("SSL_CERT_FILE is ignored: there is no file %s", trust.file)
    for directory in filter(None, (trust.directories or "").split(os.pathsep)):
        if Path(directory).is_dir():
            context.load_verify_locations(capath=directory)
        else:
            logger.warning("SSL_CERT_DIR is ignored: there is no directory %s", directory)
    return context


def _load_system_store(context: ssl.SSLContext) -> None:
    # `openssl_capath` and `openssl_cafile` are those OpenSSL was built with; the plain attributes are
    # replaced by the environment, which here comes on top.
    paths = ssl.get_default_verify_paths()
    if Path(paths.openssl_capath).is_dir():
        context.load_verify_locations(capath=paths.openssl_capath)
    for bundle in (paths.openssl_cafile, *_BUNDLES):
        if Path(bundle).is_file():
            context.load_verify_locations(cafile=bundle)
            return
