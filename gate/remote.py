"""Files by URL: `s3://`, `gs://`, `hf://`, `https://` and what else fsspec knows (extra `remote`).

A file that is read is copied once into a folder of this process, the mirror, laid out as the store lays it
out: what lies beside it is found there as on a disk, and large files are mapped, not held. Every failure is
an OSError whose `strerror` is a plain sentence without anything of the exception it comes from, because that
may hold a key or a signed address; what cannot be known without another install is a UsageError.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .errors import UsageError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_QUERY = re.compile(r"[?#][^/]*=")  # elsewhere a `?` is a glob
_MAGIC = re.compile(r"[*?[]")
_WEB = ("http", "https")
_NEEDS = {"gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub", "az": "adlfs", "abfs": "adlfs"}
_INSTALL = "python -m pip install fsspec s3fs aiohttp"
_AT_ONCE = 8  # files that are fetched beside one another
_CONNECT_S, _READ_S = 10, 60  # a gate must not wait for a store for the rest of the job

_SECRET: dict[str, str] = {}  # URL as it is shown -> as it is opened
_MIRRORED: dict[Path, str] = {}  # file of the mirror -> URL as it is shown
_WHOLE: set[Path] = set()  # folders of the mirror all of whose files are known
_mirror: list[Path] = []  # the folder of this process, once there is one


def is_url(name: str | Path) -> bool:
    """Whether a name is a URL. A path never is: it has lost one of the slashes."""
    return isinstance(name, str) and _URL.match(name) is not None


def shown(name: str) -> str:
    """The name as it may be printed and kept: a URL without user, password and query, which are remembered.

    `file://` is a plain path. Raises UsageError for URLs that cannot be told apart without their secrets.
    """
    if not is_url(name):
        return name
    scheme, _, rest = name.partition("://")
    scheme = scheme.lower()
    if scheme in ("file", "local"):
        from urllib.parse import unquote

        return unquote(rest)
    if scheme in _WEB:
        rest = re.split("[?#]", rest, maxsplit=1)[0]
    elif query := _QUERY.search(rest):
        rest = rest[: query.start()]
    host, slash, path = rest.partition("/")
    plain = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
    if _SECRET.setdefault(plain, name) != name and name != plain:
        why = "is named twice with different queries or users, which are left out wherever it is shown"
        raise UsageError(why, plain, "judge them one at a time")
    return plain


def forget() -> None:
    """Begin a command line, or end one: the mirror is taken away."""
    import shutil

    for known in (_SECRET, _MIRRORED, _WHOLE):
        known.clear()
    while _mirror:
        shutil.rmtree(_mirror.pop(), ignore_errors=True)


# ---- what is there --------------------------------------------------------------------------


def find(url: str) -> list[Path]:
    """Where the mirror has each file that a URL stands for, in order: a file, or all below a folder or glob.

    A file that is not there is found when it is fetched. Raises OSError and UsageError.
    """
    scheme = url.partition("://")[0]
    if scheme in _WEB:
        if url.endswith("/"):
            raise _StoreError("a folder of a web server cannot be listed: name its files")
        return [mirrored(url)]
    store, place = _opened(url)
    with _Plainly():
        several = _MAGIC.search(place) and not _is_there(store, place)
        places = store.glob(place, detail=True) if several else {place: _info(store, place)}
        files: list[str] = []
        for name, info in places.items():
            if info["type"] != "directory":
                files.append(name)
                continue
            below = store.find(name)
            files += below
            _WHOLE.update(path.parent for path in map(mirrored, (_url(scheme, one) for one in below)))
    return sorted({mirrored(_url(scheme, name)) for name in files})


def is_file(path: Path) -> bool:
    """Whether a file of the mirror is in the store; it is fetched. Raises OSError where nobody answers."""
    if path in _MIRRORED:
        return True
    url = url_of(path)
    if url is None or path.parent in _WHOLE or url.partition("://")[0] in _WEB:
        return False  # a web server answers for files that it does not have
    store, place = _opened(url)
    try:
        with _Plainly():
            if not _is_there(store, place, "file"):
                return False
    except PermissionError:  # what S3 says of a key that is not there to who may not list
        return False
    fetch([mirrored(url)])
    return True


def _info(store: Any, place: str) -> dict[str, Any]:
    try:
        return dict(store.info(place))
    except FileNotFoundError:
        return {"type": "file"}


def _is_there(store: Any, place: str, kind: str = "") -> bool:
    """Whether the store has it; the method of that name takes every failure for a no."""
    try:
        return store.info(place)["type"] in (kind or ("file", "directory"))
    except FileNotFoundError:
        return False


def _url(scheme: str, name: str) -> str:
    return f"{scheme}://{name.lstrip('/')}"


def mirrored(url: str) -> Path:
    """Where the mirror has the file of this URL, fetched or not. Raises OSError for an impossible name."""
    import tempfile

    if not _mirror:
        _mirror.append(Path(tempfile.mkdtemp(prefix="slo-gate-")))
    scheme, _, rest = url.partition("://")
    parts = rest.split("/")
    if not all(
        0 < len(part.encode()) < 256 and part not in (".", "..") and "\0" not in part for part in parts
    ):
        raise _StoreError("a part of its name cannot be that of a file")
    path = _mirror[0].joinpath(scheme, *parts)
    _MIRRORED[path] = url
    return path


def url_of(path: Path) -> str | None:
    """The URL of a file of the mirror as it is shown; None of any other file."""
    if not _mirror or not path.is_relative_to(_mirror[0]):
        return None
    scheme, *parts = path.relative_to(_mirror[0]).parts
    return f"{scheme}://{'/'.join(parts)}"


# ---- reading and writing --------------------------------------------------------------------


def fetch(paths: Iterable[Path]) -> dict[Path, OSError]:
    """Copy files of the mirror from their stores, several at once; what went wrong with which.

    Raises UsageError where an install is missing.
    """
    from concurrent.futures import ThreadPoolExecutor

    missing = [path for path in dict.fromkeys(paths) if not path.exists()]
    for path in missing[:1]:
        _opened(_MIRRORED[path])  # what is imported is imported in one thread
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        faults = zip(missing, pool.map(_fetched, missing), strict=True)
        return {path: fault for path, fault in faults if fault is not None}


def _fetched(path: Path) -> OSError | None:
    """Fetch one file; it appears whole or not at all."""
    half = path.with_name(f".{path.name[:200]}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        store, place = _opened(_MIRRORED[path])
        with _Plainly():
            if "http" in store.protocol:  # it sends one answer, whose length its library holds it to
                store.get_file(place, str(half), headers={"Accept-Encoding": "identity"})
            else:
                before = store.info(place)
                if before["type"] == "directory":
                    raise _StoreError("it is a folder, not a file")
                store.get_file(place, str(half))
                store.invalidate_cache(store._parent(place))
                _same(before, store.info(place), half.stat().st_size)
        half.replace(path)
    except OSError as error:
        half.unlink(missing_ok=True)
        return error
    return None


def _same(before: dict[str, Any], after: dict[str, Any], size: int) -> None:
    """Raises OSError for what was cut short, or replaced while it was read."""
    marks = ("ETag", "etag", "generation", "size", "LastModified")
    if any(before.get(mark) != after.get(mark) for mark in marks):
        raise _StoreError("it changed while it was read: run this again")
    if before.get("size") not in (None, size):
        why = f"{size:,} bytes of the {before['size']:,} that the store announces came: run this again"
        raise _StoreError(why)


def read(url: str) -> bytes:
    """The content of one file. Raises OSError and UsageError."""
    path = mirrored(url)
    if fault := fetch([path]).get(path):
        raise fault
    return path.read_bytes()


def write(url: str, content: bytes) -> None:
    """Make `content` the whole content of a file, at once. Raises OSError and UsageError."""
    store, place = _opened(url)
    with _Plainly():
        store.pipe_file(place, content)


def remove(url: str) -> None:
    """Take a file away; one that is not there is none. Raises OSError and UsageError."""
    store, place = _opened(url)
    with _Plainly():
        try:
            store.rm_file(place)
        except FileNotFoundError:
            return


def _opened(url: str) -> tuple[Any, str]:
    """The store of a URL, and what the store calls the file. Raises UsageError and OSError."""
    scheme = url.partition("://")[0]
    missing = f"a URL that begins with {scheme}:// is read by packages that are not installed"
    try:
        import fsspec
        from fsspec.registry import known_implementations
    except ImportError:
        raise UsageError(missing, url, f"install the extra `remote`: {_INSTALL}") from None
    if "::" in url or (scheme not in known_implementations and scheme not in fsspec.available_protocols()):
        raise UsageError(
            f"{scheme}:// is nothing that fsspec opens", url, "use s3://, gs://, hf:// or https://"
        )
    try:
        with _Plainly():
            store, place = fsspec.url_to_fs(_SECRET.get(url, url), **_patience(scheme))
            return store, str(place)
    except ImportError:
        package = _NEEDS.get(scheme)
        hint = f"python -m pip install {package}" if package else f"install the extra `remote`: {_INSTALL}"
        raise UsageError(missing, url, hint) from None


def _patience(scheme: str) -> dict[str, Any]:
    """How long a store may take to answer, unless fsspec's own configuration says something of it."""
    from fsspec.config import conf

    if scheme in ("s3", "s3a") and "config_kwargs" not in conf.get("s3", {}):
        waits = {"connect_timeout": _CONNECT_S, "read_timeout": _READ_S, "retries": {"max_attempts": 1}}
        return {"config_kwargs": waits}
    if scheme in _WEB and not conf.get("http", {}).keys() & {"client_kwargs", "timeout"}:
        from aiohttp import ClientTimeout

        return {"client_kwargs": {"timeout": ClientTimeout(None, sock_connect=_CONNECT_S, sock_read=_READ_S)}}
    return {}


# ---- what goes wrong ------------------------------------------------------------------------


class _StoreError(OSError):
    """A failure that is said in our own words already."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EIO, why)


_STATUS = {
    400: "the store refuses the request as malformed (HTTP 400)",
    429: "the store asks for fewer requests (HTTP 429): try again later",
}
_BY_NAME = {  # of an exception's classes -> what it means
    "Credential|TokenRetrieval|SSOToken|Refresh|ProfileNotFound": "no credentials for the store are found",
    "Timeout": "the store did not answer in time",
    "PayloadError|IncompleteRead|ResponseStreaming": "the answer ended before all of it came: run this again",
    "SSL|Certificate": "the certificate of the store cannot be verified",
    "Connect|Endpoint|DNS|ServerDisconnected|gaierror": "the store cannot be reached",
    "ParamValidation|InvalidURL|ValueError|Region": "the URL is none that the store takes",
}


class _Plainly:
    """Raises an OSError with a plain sentence for whatever the library of a store raises."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(
            error, (ImportError, MemoryError, UsageError, _StoreError)
        ):
            raise _plain(error) from None


def _plain(error: Exception) -> OSError:
    """The error as people may read it, by its class and status alone."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    status = next(filter(None, map(_status, chain)), None)
    if status in (401, 403) or isinstance(error, PermissionError):
        return PermissionError(errno.EACCES, "access is denied: check the credentials of this environment")
    if isinstance(error, FileExistsError):
        return FileExistsError(errno.EEXIST, "it is there already")
    if status == 404 or isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "no such file")
    if status is not None:
        said = "the store failed" if status >= 500 else "the store refuses the request"
        return _StoreError(_STATUS.get(status, f"{said} (HTTP {status})"))
    names = " ".join(base.__name__ for one in chain for base in type(one).__mro__)
    said = f"the store cannot be used ({type(error).__name__})"
    return _StoreError(next((why for pattern, why in _BY_NAME.items() if re.search(pattern, names)), said))


def _status(error: BaseException) -> int | None:
    """The HTTP status that an exception tells of, if any."""
    answer = getattr(error, "response", None)
    found = (
        answer.get("ResponseMetadata", {}).get("HTTPStatusCode")  # botocore's
        if isinstance(answer, dict)
        else getattr(error, "status", getattr(answer, "status_code", None))
    )
    return found if isinstance(found, int) and 400 <= found < 600 else None
