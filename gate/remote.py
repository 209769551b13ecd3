"""Files by URL: `s3://`, `gs://`, `hf://`, `https://` and what else fsspec knows (extra `remote`).

A file that is read is copied once into a folder of this process, the mirror, laid out as the store lays it
out: what lies beside it is found there as on a disk, and large files are mapped, not held. Every failure is
an OSError whose `strerror` is a plain sentence without anything of the exception it comes from, because that
may hold a key or a signed address; what cannot be known without another install is a UsageError.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .errors import UsageError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_QUERY = re.compile(r"[?#][^/]*=")  # elsewhere a `?` is a glob
_MAGIC = re.compile(r"[*?[]")
_WEB = ("http", "https")
_BUCKETS = ("s3", "s3a", "gs", "gcs")  # a path begins with the name of one, which is there before its files
_NEEDS = {"gs": "gcsfs", "hf": "huggingface_hub", "az": "adlfs", "abfs": "adlfs"}
_INSTALL = "python -m pip install fsspec s3fs aiohttp"


class Place(NamedTuple):
    """A file, or a folder and all files below it."""

    url: str
    files: Sequence[Path]  # in the mirror, by name
    is_folder: bool


_LONGEST = 240  # bytes of a name: what lies beside it and what is half of it have a longer one
_AT_ONCE = 8  # files that are fetched beside one another
_CONNECT_S, _READ_S = 10, 60  # a gate must not wait for a store for the rest of the job

_ALIAS = {"s3a": "s3", "gcs": "gs"}
_SECRET: dict[str, str] = {}  # URL as it is shown -> as it is opened
_FOUND: dict[str, Sequence[Place]] = {}  # URL -> what was found under it
_KNOWN: set[Path] = set()  # files of the mirror that were named or listed
_WHOLE: set[Path] = set()  # folders of the mirror all of whose files are known
_FAULTS: dict[Path, OSError] = {}  # why a file could not be fetched
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
    scheme = _ALIAS.get(scheme.lower(), scheme.lower())
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
    for known in (_SECRET, _FOUND, _KNOWN, _WHOLE, _FAULTS):
        known.clear()
    while _mirror:
        import shutil  # only here: this is part of every start

        shutil.rmtree(_mirror.pop(), ignore_errors=True)


# ---- what is there --------------------------------------------------------------------------


def find(url: str) -> Sequence[Place]:
    """What a URL stands for, in order: a file, a folder, or what a glob matches; asked once.

    A file that is not there is told when it is opened. Raises OSError and UsageError.
    """
    if url not in _FOUND:
        _FOUND[url] = sorted(_found(url))
    return _FOUND[url]


def _found(url: str) -> Iterable[Place]:
    scheme = url.partition("://")[0]
    if scheme in _WEB:
        if url.endswith("/"):
            raise _StoreError("a folder of a web server cannot be listed: name its files")
        return [_file(url)]
    store, place = _opened(url)
    with _Plainly():
        several = _MAGIC.search(place) and not _is_there(store, place)
        places = store.glob(place, detail=True) if several else {place: _info(store, place)}
        return [
            _folder(store, _url(scheme, name), name)
            if info["type"] == "directory"
            else _file(_url(scheme, name))
            for name, info in places.items()
        ]


def _file(url: str) -> Place:
    path = _checked(url)
    _KNOWN.add(path)
    return Place(url, (path,), False)


def _folder(store: Any, url: str, place: str) -> Place:
    files = sorted(_checked(_url(url.partition("://")[0], name)) for name in store.find(place))
    _KNOWN.update(files)
    _WHOLE.update(path.parent for path in files)
    for folder in _WHOLE:
        folder.mkdir(parents=True, exist_ok=True)
    return Place(url, files, True)


def is_file(path: str | Path) -> bool:
    """Whether a file of the mirror is in the store. Raises OSError where nobody answers, and UsageError."""
    url = url_of(path)
    if url is None or Path(path) in _KNOWN:
        return url is not None
    if Path(path).parent in _WHOLE or url.partition("://")[0] in _WEB:
        return False  # a web server answers for files that it does not have
    store, place = _opened(url)
    try:
        with _Plainly():
            if not _is_there(store, place, "file"):
                return False
    except PermissionError:  # what S3 says of a key that is not there to who may not list
        return False
    _KNOWN.add(Path(path))
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


def absent(url: str) -> str:
    """Why nothing can be below a URL; empty where something is or may be. Raises OSError and UsageError."""
    store, place = _opened(url)
    bucket = place.partition("/")[0]
    with _Plainly():
        if _is_there(store, place, "file"):
            return "it is a file, not a folder"
        if url.partition("://")[0] in _BUCKETS and not _is_there(store, bucket):
            return f"there is no bucket {bucket}"
    return ""


def _url(scheme: str, name: str) -> str:
    return f"{scheme}://{name.lstrip('/')}"


def mirrored(url: str) -> Path:
    """Where the mirror has the file of this URL, fetched or not."""
    import tempfile

    if not _mirror:
        _mirror.append(Path(tempfile.mkdtemp(prefix="slo-gate-")))
    scheme, _, rest = url.partition("://")
    return _mirror[0].joinpath(scheme, *rest.split("/"))


def _checked(url: str) -> Path:
    """The same. Raises OSError for a name that no file of this machine can have."""
    for part in url.partition("://")[2].split("/"):
        if not 0 < len(part.encode()) < _LONGEST or part in (".", "..") or "\0" in part:
            raise _StoreError("a part of its name cannot be that of a file")
    return mirrored(url)


def url_of(path: str | Path) -> str | None:
    """The URL of a file of the mirror as it is shown; None of any other file."""
    if not _mirror or not Path(path).is_relative_to(_mirror[0]):
        return None
    scheme, *parts = Path(path).relative_to(_mirror[0]).parts
    return f"{scheme}://{'/'.join(parts)}"


# ---- reading and writing --------------------------------------------------------------------


def fetch(paths: Iterable[Path]) -> Mapping[Path, OSError]:
    """Copy files of the mirror from their stores, several at once; why it failed, of those where it did.

    Raises UsageError where an install is missing.
    """
    wanted = dict.fromkeys(paths)
    if not wanted:
        return {}
    from concurrent.futures import ThreadPoolExecutor  # only here: this is part of every start

    missing = [path for path in wanted if not path.exists() and path not in _FAULTS]
    for path in missing[:1]:
        _opened(str(url_of(path)))  # what is imported is imported in one thread
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        faults = zip(missing, pool.map(_fetched, missing), strict=True)
        _FAULTS.update((path, fault) for path, fault in faults if fault is not None)
    return {path: _FAULTS[path] for path in wanted if path in _FAULTS}


def fetched(url: str) -> Path:
    """The file of the mirror, with its content. Raises OSError and UsageError."""
    path = _checked(url)
    if fault := fetch([path]).get(path):
        raise fault
    return path


def _fetched(path: Path) -> OSError | None:
    """Fetch one file; it appears whole or not at all."""
    half = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        store, place = _opened(str(url_of(path)))
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
    return fetched(url).read_bytes()


def write(url: str, content: bytes) -> None:
    """Make `content` the whole content of a file, at once. Raises OSError and UsageError."""
    store, place = _opened(url)
    with _Plainly():
        store.pipe_file(place, content)
    _stale(url)


def remove(url: str) -> None:
    """Take a file away; one that is not there is none. Raises OSError and UsageError."""
    store, place = _opened(url)
    with _Plainly():
        try:
            store.rm_file(place)
        except FileNotFoundError:
            return
    _stale(url)


def _stale(url: str) -> None:
    """What is known of a file holds no longer."""
    _FOUND.clear()
    _FAULTS.pop(mirrored(url), None)
    mirrored(url).unlink(missing_ok=True)


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
