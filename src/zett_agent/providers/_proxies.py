"""Which proxy the environment asks for.

The usual variables are `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case; the
lower-case spelling wins, as elsewhere. Nothing here fails: a proxy that cannot be used is reported when it
is needed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

__all__ = ["Proxy", "UnusableProxy", "find_proxy"]

_DEFAULT_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy to go through.

    Attributes:
        scheme: `"http"`, `"https"` or `"socks5"`.
        host: Its name or address.
        port: Its port.
        credentials: User name and password.
    """

    scheme: str
    host: str
    port: int
    credentials: tuple[str, str] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Its address, without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnusableProxy:
    """The environment asks for a proxy that cannot be used.

    Attributes:
        reason: Why, and what to do.
    """

    reason: str


def find_proxy(scheme: str, host: str, port: int, environ: Mapping[str, str]) -> Proxy | UnusableProxy | None:
    """Return the proxy for requests to a host, or `None` to go there directly.

    Example:
        >>> find_proxy("http", "a.example", 80, {"HTTP_PROXY": "proxy.example:3128"})
        Proxy(scheme='http', host='proxy.example', port=3128)
        >>> find_proxy("http", "10.1.2.3", 80, {"ALL_PROXY": "proxy.example", "NO_PROXY": "10.0.0.0/8"})
    """
    values = [
        (name, value)
        for name in (f"{scheme}_proxy", "all_proxy")
        if (value := _variable(environ, name)) is not None
    ]
    if not values or _bypassed(host, port, _variable(environ, "no_proxy") or ""):
        return None
    unusable: UnusableProxy | None = None
    for name, value in values:
        proxy = _parse(name.upper(), value)
        if isinstance(proxy, Proxy):
            return proxy
        unusable = unusable or proxy
    return unusable


def _variable(environ: Mapping[str, str], name: str) -> str | None:
    if name in environ:
        return environ[name].strip() or None
    if name == "http_proxy" and "REQUEST_METHOD" in environ:
        return None  # under CGI, a client's `Proxy:` header ends up in HTTP_PROXY
    return environ.get(name.upper(), "").strip() or None


def _parse(variable: str, value: str) -> Proxy | UnusableProxy:
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        return UnusableProxy(f"the environment variable {variable} is not a valid address")
    if scheme not in _DEFAULT_PORTS or not host:
        return UnusableProxy(
            f"the environment variable {variable} is not the address of an http, https or socks5 proxy"
        )
    if scheme.startswith("socks") and importlib.util.find_spec("socksio") is None:
        return UnusableProxy(
            f"the environment variable {variable} names a SOCKS proxy, which needs an optional package: "
            "pip install 'zett-agent[socks]'"
        )
    credentials = None
    if parts.username is not None:
        credentials = (unquote(parts.username), unquote(parts.password or ""))
    # With socks5 as with socks5h the proxy resolves names; older HTTP clients know only the first spelling.
    return Proxy(scheme.removesuffix("h"), host, port or _DEFAULT_PORTS[scheme], credentials)


def _bypassed(host: str, port: int, no_proxy: str) -> bool:
    host = host.rstrip(".").lower()
    return any(
        (entry_port is None or entry_port == port) and _matches(host, entry)
        for entry, entry_port in _entries(no_proxy)
    )


def _entries(no_proxy: str) -> Iterator[tuple[str, int | None]]:
    """Yield each entry without scheme and brackets, and its port if it has one."""
    for item in no_proxy.replace(",", " ").split():
        entry = item.lower().rpartition("://")[2]
        port = ""
        if entry.startswith("["):  # an IPv6 address in brackets, perhaps with a port
            entry, _, rest = entry[1:].partition("]")
            entry, port = (entry + rest, "") if rest.startswith("/") else (entry, rest.removeprefix(":"))
        elif entry.count(":") == 1:
            entry, _, port = entry.partition(":")
        yield entry, int(port) if port.isdecimal() else None


def _matches(host: str, entry: str) -> bool:
    if entry == "*" or host == entry:
        return True
    if ":" in host or host.replace(".", "").isdecimal():
        return _in_network(host, entry)
    domain = entry.lstrip("*").strip(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def _in_network(host: str, entry: str) -> bool:
    import ipaddress  # only worth its import where addresses are compared

    try:
        return ipaddress.ip_address(host.partition("%")[0]) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
