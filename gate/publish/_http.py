"""One JSON API over urllib3, which does the retries, waits and redirects."""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import BaseHTTPResponse, PoolManager, ProxyManager, Timeout
from urllib3.connectionpool import ConnectionPool
from urllib3.exceptions import HTTPError, MaxRetryError
from urllib3.util import Retry

from .. import __version__
from ..units import printable
from ._nouns import Comment, PublishError

LONGEST_WAIT_S = 60  # a Retry-After above it is not waited for: a CI job is billed by the minute
PAGES = 100  # of 100 comments each
_NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class RefusedError(PublishError):
    """The API answered with an error; `status` is the HTTP code."""

    def __init__(self, status: int, message: str, where: str, hint: str) -> None:
        super().__init__(message, where, hint)
        self.status = status


class Api:
    """A JSON API below `base`, with a bearer token that goes to no other host."""

    def __init__(self, base: str, token: str, headers: dict[str, str], timeout_s: float, denied: str) -> None:
        """`denied` is what to do about a 401 or 403.

        Raises PublishError for a base that would show the token, or a token no header can hold."""
        parts = urlsplit(base)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise PublishError("the API address is not https, so no token is sent", base, "use https")
        if not re.fullmatch(r"[\x21-\x7e]+", token):
            raise PublishError("the token is empty or holds spaces", "", "set it to the token alone")
        self.base = base.rstrip("/")
        self._denied = denied
        self._pool = _pool(base, timeout_s)
        self._headers = {
            "Authorization": f"Bearer {token}",
            "User-Agent": f"slo-gate/{__version__}",
            **headers,
        }

    def call(self, method: str, path: str, body: object = None, **query: object) -> tuple[Any, bool]:
        """The decoded answer, and whether it took more than one attempt. Raises PublishError."""
        response = self._send(method, self._url(path, query), body)
        retries = response.retries
        return _decoded(response), bool(retries and any(one.status or one.error for one in retries.history))

    def pages(self, path: str, **query: object) -> Iterator[Any]:
        """Every item of every page, by the Link header. Raises PublishError."""
        url = self._url(path, {"per_page": 100, **query})
        for _ in range(PAGES):
            response = self._send("GET", url, None)
            items = _decoded(response)
            yield from items if isinstance(items, list) else ()
            following = _NEXT.search(response.headers.get("Link", ""))
            if not following:
                return
            url = urljoin(url, following[1])
            if urlsplit(url)[:2] != urlsplit(self.base)[:2]:
                raise PublishError("the next page is on another host, so no token is sent", printable(url))

    def _url(self, path: str, query: dict[str, object]) -> str:
        return f"{self.base}{path}" + (f"?{urlencode(query)}" if query else "")

    def _send(self, method: str, url: str, body: object) -> BaseHTTPResponse:
        headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            response = self._pool.request(method, url, headers=headers, body=data)
            wait = _until_reset(response) if response.status == 403 else None  # urllib3 waits after a 429
            if wait is not None and wait <= LONGEST_WAIT_S:
                time.sleep(wait)
                response = self._pool.request(method, url, headers=headers, body=data)
        except HTTPError as error:  # its text names the address, never a header
            raise PublishError(f"no answer: {printable(str(error))}", printable(url)) from None
        if response.status >= 400:
            raise _refusal(response, method, url, self._denied)
        return response


class Forge(ABC):
    """The comments of one place, made, changed and taken away by one API."""

    changes = "PATCH"  # the method that changes a comment

    def __init__(self, api: Api, every: str, each: str) -> None:
        """`every` and `each` are the paths of all comments and above those of one."""
        self._api, self._every, self._each = api, every, each

    @abstractmethod
    def comments(self) -> list[Comment]:
        """Of every page, oldest first."""

    @abstractmethod
    def wrote(self, comment: Comment) -> bool:
        """Whether the holder of the token did."""

    @abstractmethod
    def decoded(self, item: Any) -> Comment:
        """A comment as the API gives it. Raises PublishError."""

    def create(self, body: str) -> tuple[Comment, bool]:
        """The new comment, and whether it took several attempts."""
        answer, repeated = self._api.call("POST", self._every, {"body": body})
        return self.decoded(answer), repeated

    def update(self, comment: Comment, body: str) -> Comment:
        """The comment as it is now."""
        answer, _ = self._api.call(self.changes, f"{self._each}/{comment.id}", {"body": body})
        return self.decoded(answer)

    def delete(self, comment: Comment) -> None:
        """Take it away."""
        self._api.call("DELETE", f"{self._each}/{comment.id}")


def _pool(base: str, timeout_s: float) -> PoolManager:
    parts = urlsplit(base)
    settings: dict[str, Any] = {"retries": _retry(), "timeout": Timeout(connect=timeout_s, read=timeout_s)}
    proxy = getproxies().get(parts.scheme)
    if proxy and not proxy_bypass(parts.hostname or ""):
        return ProxyManager(proxy, **settings)
    return PoolManager(**settings)


class _Patient(Retry):
    """On time-outs and 5xx with growing waits; on 403 and 429 as long as the server says, up to a limit.

    GitHub's secondary rate limit is a 403 or a 429 with Retry-After, its primary one has no requests
    left until X-RateLimit-Reset
    (https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api).
    """

    RETRY_AFTER_STATUS_CODES = frozenset({403, 413, 429, 503})

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """Seconds to wait, by Retry-After, else until the limit is reset; None where nothing says."""
        wait = super().get_retry_after(response)
        return wait if wait is not None else _until_reset(response)

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: BaseHTTPResponse | None = None,
        error: Exception | None = None,
        _pool: ConnectionPool | None = None,
        _stacktrace: TracebackType | None = None,
    ) -> _Patient:
        """The retries that are left. Raises MaxRetryError, also where the server asks for a long wait."""
        wait = self.get_retry_after(response) if response is not None else None
        if _pool is not None and wait is not None and wait > LONGEST_WAIT_S:
            raise MaxRetryError(_pool, url or "", None)
        return super().increment(method, url, response, error, _pool, _stacktrace)


def _until_reset(response: BaseHTTPResponse) -> float | None:
    """Seconds until a used-up rate limit is reset; None where none is, or that is not told.

    X-RateLimit-* of GitHub and RateLimit-* of GitLab: what is left, and the second (Unix time) of the reset.
    """
    for prefix in ("X-RateLimit", "RateLimit"):
        reset = response.headers.get(f"{prefix}-Reset", "")
        if response.headers.get(f"{prefix}-Remaining") == "0" and re.fullmatch(r"[0-9]{1,12}", reset):
            return max(0.0, int(reset) - time.time()) + 1  # clocks differ, and the second must be over
    return None


def _retry() -> Retry:
    """Of writes too: what a repeated POST may leave twice, `publish` takes away."""
    return _Patient(
        total=5,
        connect=2,
        read=2,
        status=4,  # 0, 1, 2 and 4 s apart
        redirect=3,
        backoff_factor=0.5,
        status_forcelist=(429, 500, 502, 503, 504),
        allowed_methods=None,  # every method
        raise_on_status=False,
    )


def _decoded(response: BaseHTTPResponse) -> Any:
    if not response.data:
        return None
    try:
        return json.loads(response.data)
    except ValueError:
        raise PublishError("the answer is not JSON", printable(response.geturl() or "")) from None


def _refusal(response: BaseHTTPResponse, method: str, url: str, denied: str) -> RefusedError:
    try:
        said = json.loads(response.data)
        message = str(said.get("message") or said.get("error") or "")
    except (ValueError, AttributeError):  # a proxy's page, or nothing
        message = ""
    limited = _until_reset(response) is not None or "rate limit" in message.lower()
    limited |= response.headers.get("X-RateLimit-Remaining") == "0"
    text = f"HTTP {response.status} to {method}" + (f": {printable(message)[:300]}" if message else "")
    return RefusedError(response.status, text, printable(url), _hint(response.status, limited, denied))


def _hint(status: int, limited: bool, denied: str) -> str:
    if limited or status == 429:
        return "the rate limit is used up; run the job again later"
    if status in (401, 403):
        return denied
    if status == 404:
        return "check the repository and number, and that the token may see them"
    return "see the status page of the forge, and run the job again" if status >= 500 else ""
