"""One GET or POST with a time limit, retries, a limit of size, and nothing secret in a message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from ..errors import InputError, UsageError

MOST_BYTES = 256 << 20  # of one answer: a day of a hundred replicas has about 60 MB
TOKEN, USER, PASSWORD = "SLO_GATE_PULL_TOKEN", "SLO_GATE_PULL_USER", "SLO_GATE_PULL_PASSWORD"
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


class Credentials(Struct, frozen=True):
    """How a server knows the caller: a bearer token, or a user and a password. Never shown."""

    token: str = ""
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return "Credentials(...)"

    def headers(self) -> dict[str, str]:
        """As HTTP sends them (RFC 6750, RFC 7617)."""
        from urllib3 import make_headers

        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        if self.user or self.password:
            return dict(make_headers(basic_auth=f"{self.user}:{self.password}"))
        return {}


def credentials(environment: Mapping[str, str], token_file: str = "") -> Credentials:
    """From $SLO_GATE_PULL_TOKEN, or _USER and _PASSWORD, or a file that holds a token.

    Raises UsageError for a file that cannot be read and for what no header can carry.
    """
    token = environment.get(TOKEN, "")
    if token_file:
        try:
            token = Path(token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise UsageError(
                f"the token cannot be read: {why}", "--token-file", "name a file that holds it"
            ) from None
        if not token:
            raise UsageError("the file with the token is empty", "--token-file", "name a file that holds it")
    if _CONTROL.search(token):
        raise UsageError(
            "the token holds a space or a line break", "--token-file" if token_file else TOKEN, ""
        )
    return Credentials(token, environment.get(USER, ""), environment.get(PASSWORD, ""))


def named(url: str) -> str:
    """The address without user, password and query. Raises UsageError for what is no address."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        hint = "write it like http://prometheus:9090, or http://engine:8000/metrics"
        raise UsageError("is no http or https address", _CONTROL.sub(" ", url.rpartition("@")[2])[:200], hint)
    host = parts.netloc.rpartition("@")[2]
    if "@" in parts.netloc:
        hint = f"put them into ${USER} and ${PASSWORD}"
        raise UsageError(
            "a user and a password in an address are seen by everybody", f"{parts.scheme}://{host}", hint
        )
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


class Client:
    """Answers of one server or several, by urllib3. One thread."""

    def __init__(self, known: Credentials, *, timeout_s: float = 10.0, ca_file: str = "") -> None:
        """`timeout_s` is for each answer; `ca_file` holds certificates of authorities to trust (PEM).

        Raises UsageError for a CA file that cannot be read.
        """
        import ssl

        self._headers = known.headers()
        self._timeout_s = timeout_s
        self._settings: dict[str, Any] = {}
        if ca_file:
            try:
                self._settings["ssl_context"] = ssl.create_default_context(cafile=ca_file)
            except (OSError, ssl.SSLError) as error:
                why = getattr(error, "strerror", None) or "it holds no certificate"
                raise UsageError(
                    f"the certificates cannot be read: {why}", ca_file, "name a PEM file"
                ) from None

    def get(self, url: str) -> bytes:
        """The body of a page. Raises InputError."""
        return self._answer("GET", url, {})

    def post(self, url: str, fields: Mapping[str, str]) -> bytes:
        """The body of an answer to a form; a query may be longer than an address. Raises InputError."""
        return self._answer("POST", url, fields)

    def _answer(self, method: str, url: str, fields: Mapping[str, str]) -> bytes:
        import urllib3

        where = named(url)
        retries = urllib3.Retry(
            3,
            redirect=False,  # credentials are not sent on
            status_forcelist=(429, 502, 503, 504),
            allowed_methods=None,
            backoff_factor=0.5,
            raise_on_status=False,
        )
        sent: dict[str, Any] = {"fields": dict(fields), "encode_multipart": False} if fields else {}
        try:
            with self._pool(url) as pool:
                answer = pool.request(
                    method,
                    url,
                    headers={"Accept": "*/*", **self._headers},
                    retries=retries,
                    preload_content=False,
                    timeout=urllib3.Timeout(connect=self._timeout_s, read=self._timeout_s),
                    **sent,
                )
                body: bytes = answer.read(MOST_BYTES + 1)
                answer.release_conn()
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise InputError(f"does not answer: {_why(error)}", where, _reach(error)) from None
        if len(body) > MOST_BYTES:
            raise InputError(
                f"answers with more than {MOST_BYTES >> 20} MB", where, "ask for less: --match, --for, --step"
            )
        if answer.status != 200:
            raise InputError(f"answers HTTP {answer.status}{_said(body)}", where, _hint(answer.status))
        return body

    def _pool(self, url: str) -> Any:
        """Through the proxy of the environment, where it has one for this address."""
        from urllib.request import getproxies, proxy_bypass

        import urllib3

        parts = urlsplit(url)
        proxy = getproxies().get(parts.scheme)
        if proxy and not proxy_bypass(parts.hostname or ""):
            return urllib3.ProxyManager(proxy, **self._settings)
        return urllib3.PoolManager(**self._settings)


def _why(error: Exception) -> str:
    """In words: urllib3 tells objects and addresses."""
    import urllib3

    reason = getattr(error, "reason", None) or error
    if isinstance(reason, urllib3.exceptions.NameResolutionError):
        return "its name is not known"
    if isinstance(reason, urllib3.exceptions.NewConnectionError):
        return "no connection"
    if isinstance(reason, urllib3.exceptions.ConnectTimeoutError | urllib3.exceptions.ReadTimeoutError):
        return "the time is up"
    if isinstance(reason, urllib3.exceptions.SSLError):
        return "its certificate is not trusted" if "CERTIFICATE_VERIFY" in str(reason) else "TLS failed"
    if isinstance(reason, urllib3.exceptions.IncompleteRead | urllib3.exceptions.ProtocolError):
        return "the answer was cut off"
    return type(reason).__name__


def _reach(error: Exception) -> str:
    text = _why(error)
    if "certificate" in text:
        return "give its authority with --ca-file"
    return (
        "give it more with --timeout"
        if text == "the time is up"
        else "check the address, and that it can be reached from here"
    )


def _said(body: bytes) -> str:
    """What Prometheus says of its refusal, in one line."""
    import msgspec

    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        said = msgspec.json.decode(body)
        if isinstance(said, dict) and isinstance(said.get("error"), str):
            return f": {_CONTROL.sub(' ', said['error'])[:300]}"
    return ""


def _hint(status: int) -> str:
    if status in (401, 403):
        return f"set ${TOKEN}, or ${USER} and ${PASSWORD}; they may be wrong or lack the right to read"
    if status == 404:
        return "name a server as in its browser page, like http://prometheus:9090, or an engine's /metrics"
    if 300 <= status < 400:
        return "name the address that it redirects to: credentials are not sent on"
    return "see the log of the server, and try again" if status >= 500 else ""
