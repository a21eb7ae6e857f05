# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""HTTP requests to one API server over persistent connections. Only this file sends requests with urllib3.

After an answer 401, and after a failed TLS handshake, the settings are read again, because certificates and tokens are renewed while a
daemon runs for months. No other request is sent a second time here.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import time
import typing as t
from collections.abc import Sequence
from urllib.parse import unquote, urlencode, urlsplit

from ....model.cluster_identity import ClusterIdentity
from ..config.connection_settings import ConnectionSettings, uses_tls
from ..config.files import ConnectionSettingsError
from ..config.secrets import MIN_SECRET_LENGTH
from .timed_answer import TimedAnswer
from .tls import is_handshake_error, tls_context

if t.TYPE_CHECKING:
    urllib3: t.Any = None
    URLLIB3_IMPORT_ERROR: t.Optional[str] = None
else:
    try:
        import urllib3

        # Version 1 of urllib3 does not have this name.
        fits = hasattr(urllib3, "HTTPHeaderDict")
        URLLIB3_IMPORT_ERROR = None if fits else f"urllib3 {urllib3.__version__} is installed, and version 2 or newer is needed"
    except ImportError as import_error:
        URLLIB3_IMPORT_ERROR = str(import_error)

        class urllib3:
            """Placeholder for the names used below."""

            class exceptions:
                """Placeholder for urllib3's errors."""

                class HTTPError(Exception):
                    """Placeholder for urllib3's base error."""


HttpError: type[Exception] = urllib3.exceptions.HTTPError
"""The base of all errors of a request: refused, timed out, broken connection, untrusted certificate."""

CONNECT_TIMEOUT_S = 10

KEEPALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""TCP keepalive: seconds of silence before the first probe, seconds between probes, and the number of probes."""

KEPT_CONNECTIONS = 32
"""Connections that are kept for later requests: an informer has one for each resource, and other threads use more."""

RELOAD_EVERY_S = 5.0
"""The shortest time in seconds between two reads of the settings while the API server rejects them."""

BAD_HEADER = "the token or password has a character that no HTTP header may have, such as a line break at its end: remove it"

NO_PROXY_URL = "the proxy is not a URL such as https://HOST:PORT"

SCHEMES = ("http", "https", "socks5", "socks5h", "socks4", "socks4a")

Headers = Sequence[tuple[str, str]]


class Connection:
    """Requests with the settings that ``load`` returns. Thread-safe.

    ``load`` is called by the constructor, and again if the settings are rejected. It raises ConnectionSettingsError, and so does the
    constructor.
    """

    def __init__(self, load: t.Callable[[], ConnectionSettings], *, clock: t.Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self._lock = threading.Lock()
        self._loaded_at_s = clock()
        self._pool = _Pool(load())

    @property
    def server(self) -> str:
        """Return the URL of the API server."""
        return self._pool.settings.server

    @property
    def cluster(self) -> ClusterIdentity:
        """Return the cluster for outputs."""
        return self._pool.settings.identity

    def without_authorization(self, text: str) -> str:
        """Return the text without the value of the header ``Authorization``, for messages."""
        try:
            value = self._pool.settings.authorization()
        except ConnectionSettingsError:
            return text
        credentials = value.partition(" ")[2]
        for secret in (value, credentials):
            if len(secret) >= MIN_SECRET_LENGTH:
                text = text.replace(secret, "(hidden)")
        return text

    def send(
        self, method: str, path: str, *, query: Headers, headers: Headers, body: t.Optional[bytes], timeouts: tuple[float, float]
    ) -> t.Any:
        """Send a request and return urllib3's response, whose body is not read yet.

        ``timeouts``: seconds for a new connection, and for each time without data from the server. Raises HttpError, and
        ConnectionSettingsError if the token cannot be sent.
        """
        pool = self._pool
        try:
            response = pool.send(method, path, query, headers, body, timeouts)
        except HttpError as error:
            renewed = self._with_renewed_settings(pool) if is_handshake_error(error) else None
            if renewed is None:
                raise
            return renewed.send(method, path, query, headers, body, timeouts)
        if response.status != 401:
            return response
        renewed = self._with_renewed_settings(pool)
        if renewed is None:
            return response
        # The API server has rejected the request before it did anything, so the request can be sent again.
        response.close()
        return renewed.send(method, path, query, headers, body, timeouts)

    def _with_renewed_settings(self, refused: _Pool) -> t.Optional[_Pool]:
        """Return the connections with the current settings, or None if the settings were read recently or cannot be read."""
        with self._lock:
            if self._pool is not refused:  # another thread has renewed them
                return self._pool
            if self._clock() - self._loaded_at_s < RELOAD_EVERY_S:
                return None
            self._loaded_at_s = self._clock()
            try:
                self._pool = _Pool(self._load())
            except ConnectionSettingsError:  # for example a file that is being written: the server's rejection is reported instead
                return None
            return self._pool


class _Pool:
    """The connections that use the same settings."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        _check_url("the server", settings.server)
        if "@" in urlsplit(settings.server).netloc:
            raise ConnectionSettingsError("the server's URL has a user name in it: give it as username, and the password as password")
        self._manager = _manager(settings)
        if settings.limits_answers:
            classes = self._manager.pool_classes_by_scheme
            self._manager.pool_classes_by_scheme = {scheme: _with_timed_answers(pool) for scheme, pool in classes.items()}
        _check_headers([("Authorization", settings.authorization()), *settings.headers])

    def send(
        self, method: str, path: str, query: Headers, headers: Headers, body: t.Optional[bytes], timeouts: tuple[float, float]
    ) -> t.Any:
        sent = urllib3.HTTPHeaderDict(headers)
        authorization = [("Authorization", value)] if (value := self.settings.authorization()) else []
        own = [*authorization, *self.settings.headers]
        _check_headers(own)
        for name, value in own:
            sent.add(name, value)
        url = f"{self.settings.server}{path}"
        return self._manager.request(
            method,
            f"{url}?{urlencode(query)}" if query else url,
            headers=sent,
            body=body,
            # Versions before 2.5 follow redirects also with ``retries=False``, and send the body and the headers to the other host.
            redirect=False,
            preload_content=False,
            timeout=urllib3.Timeout(connect=timeouts[0], read=timeouts[1]),
        )


def _check_url(what: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in SCHEMES and parts.hostname and " " not in parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ConnectionSettingsError(f"{what} is not a URL such as https://HOST:PORT")


def _check_headers(headers: Headers) -> None:
    """Raise ConnectionSettingsError for a value that no header may have. The error of http.client would contain the token."""
    for name, value in headers:
        if not all(char == "\t" or " " <= char <= "~" or "\xa0" <= char <= "\xff" for char in value):
            raise ConnectionSettingsError(
                BAD_HEADER if name == "Authorization" else f"the value of {name} has a character that no header may have"
            )


def _manager(settings: ConnectionSettings) -> t.Any:
    # retries: urllib3 would repeat 429 and 503 answers itself, without a deadline. KubeApi repeats them with a deadline.
    options: dict[str, t.Any] = {"retries": False, "maxsize": KEPT_CONNECTIONS, "socket_options": _socket_options()}
    if uses_tls(settings.server):
        options["ssl_context"] = tls_context(settings)
        if not settings.verify:
            # The user has selected this. A warning for each request would add no information, and the process has no other requests.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        if settings.tls_server_name:
            options["server_hostname"] = settings.tls_server_name
    if not settings.proxy or bypasses_proxy(settings.server, settings.no_proxy):
        return urllib3.PoolManager(**options)
    _check_url("the proxy", settings.proxy)
    proxy_headers = _proxy_headers(settings)
    if settings.proxy.lower().startswith("socks"):
        try:
            from urllib3.contrib.socks import SOCKSProxyManager
        except ImportError:
            raise ConnectionSettingsError("a SOCKS proxy needs the Python library PySocks, which is not installed") from None
        return _to_proxy(lambda: SOCKSProxyManager(settings.proxy, headers=proxy_headers, **options))
    return _to_proxy(lambda: urllib3.ProxyManager(settings.proxy, proxy_headers=proxy_headers, **options))


def _with_timed_answers(pool: t.Any) -> t.Any:
    """Return the class of connection pools with answers that have one limit for their whole time."""
    connection = type(pool.ConnectionCls.__name__, (pool.ConnectionCls,), {"response_class": TimedAnswer})
    return type(pool.__name__, (pool,), {"ConnectionCls": connection})


def _to_proxy(make: t.Callable[[], t.Any]) -> t.Any:
    try:
        return make()
    except (HttpError, ValueError):  # their text contains the URL with its password
        raise ConnectionSettingsError(NO_PROXY_URL) from None


def _proxy_headers(settings: ConnectionSettings) -> t.Any:
    """Return the headers for the proxy. Raises ConnectionSettingsError if one cannot be sent."""
    given = {name: value for name, value in settings.proxy_headers.items() if value is not None}
    try:
        headers = urllib3.util.make_headers(**{**_proxy_login(settings.proxy), **given})
    except UnicodeEncodeError:
        raise ConnectionSettingsError("the user name or the password for the proxy has a character that is not in Latin-1") from None
    _check_headers(list(headers.items()))
    return headers


def _socket_options() -> list[tuple[int, int, int]]:
    """Return urllib3's own options, and the keepalive options that end a connection whose server no longer exists."""
    keepalive = [(socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in KEEPALIVE.items() if hasattr(socket, name)]
    return [*urllib3.connection.HTTPConnection.default_socket_options, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *keepalive]


def _proxy_login(proxy: str) -> dict[str, str]:
    """Return the user name and the password in the proxy's URL. urllib3 does not use them by itself."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    return {"proxy_basic_auth": f"{unquote(parts.username)}:{unquote(parts.password or '')}"}


def bypasses_proxy(server: str, no_proxy: str) -> bool:
    """Return whether the server is reached without the proxy.

    An entry of ``no_proxy`` is a host, a host with a port, a domain with all its subdomains, a network, or ``*`` for all.
    """
    parts = urlsplit(server)
    host = parts.hostname or ""
    return any(_matches(entry.strip().lower(), host, f"{host}:{parts.port}") for entry in no_proxy.split(","))


def _matches(entry: str, host: str, host_and_port: str) -> bool:
    if not entry or entry == "*":
        return bool(entry)
    with contextlib.suppress(ValueError):  # the host or the entry is a name
        if ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
            return True
    entry = entry.lstrip(".")
    return any(name == entry or name.endswith(f".{entry}") for name in (host, host_and_port))
