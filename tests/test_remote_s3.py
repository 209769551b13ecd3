"""S3 as a real server of it speaks (moto), and servers that fail. `make test-remote` installs it all."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3

from tests.conftest import ROOT, Process

for needed in ("moto", "flask", "s3fs", "aiohttp"):
    if "NEED_REMOTE" not in os.environ:
        pytest.importorskip(needed)

CHAT = ROOT / "examples/chat"
RESULT = CHAT / "good/c016_run01.json.gz"
POLICY = CHAT / "slo.yaml"
KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIAREMOTE",
    "AWS_SECRET_ACCESS_KEY": "SECRETKEY",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
AT_ONCE = {"config_kwargs": {"connect_timeout": 1, "read_timeout": 1, "retries": {"max_attempts": 0}}}
SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=AKIAREMOTE/20261201/us-east-1/s3/aws4_request"}
HTTP = urllib3.PoolManager(headers=SIGNED)


class Bucket:
    """A bucket of a server, filled and looked at without the libraries that slo-gate uses."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.env = {**KEYS, "AWS_ENDPOINT_URL": address}
        assert HTTP.request("PUT", f"{address}/bench").status == 200

    def put(self, key: str, content: bytes) -> None:
        assert HTTP.request("PUT", f"{self.address}/bench/{key}", body=content).status == 200

    def get(self, key: str) -> bytes:
        found = HTTP.request("GET", f"{self.address}/bench/{key}")
        assert found.status == 200, key
        return found.data


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def bucket(served: str) -> Bucket:
    HTTP.request("POST", f"{served}/moto-api/reset")
    return Bucket(served)


# ---- what is read and written ---------------------------------------------------------------


def test_a_verdict_from_a_bucket_is_that_of_the_folder(
    slo_gate: Process, bucket: Bucket, tmp_path: Path
) -> None:
    for name in ("good/c016_run01.json.gz", "good/c016_run02.json.gz", "old/c016_run03.json.gz"):
        content = (CHAT / "good" / Path(name).name).read_bytes()
        bucket.put(name, content)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    bucket.put("slo.yaml", POLICY.read_bytes())
    (tmp_path / "slo.yaml").write_bytes(POLICY.read_bytes())

    def judged(root: str, results: str, out: str) -> tuple[int, str]:
        words = [root + results, "--policy", f"{root}slo.yaml", "--baseline", f"{root}old/*"]
        outputs = [
            "--json",
            f"{root}{out}.json",
            "--html",
            f"{root}{out}.html",
            "--junit",
            f"{root}{out}.xml",
        ]
        found = slo_gate("check", *words, *outputs, "--same-session", **bucket.env)
        return found.returncode, found.stdout + found.stderr

    for results in ("good", "good/", "good/c016*", "good/c016_run01.json.gz"):
        here, there = judged(f"{tmp_path}/", results, "here"), judged("s3://bench/", results, "there")
        assert there == (here[0], here[1].replace(f"{tmp_path}/", "s3://bench/")), results
        for kind in ("json", "html", "xml"):
            written = (tmp_path / f"here.{kind}").read_text(encoding="utf-8")
            # A policy is called by its place in its repository, where it has one.
            for word, place in (
                (f"{tmp_path}/", "s3://bench/"),
                ('_path": "slo.yaml"', '_path": ""'),
                ('"path": "slo.yaml"', '"path": "s3://bench/slo.yaml"'),
            ):
                written = written.replace(word, place)
            if kind == "json":
                assert bucket.get("there.json").decode() == written
            assert len(bucket.get(f"there.{kind}")) > 1000
    report = json.loads(bucket.get("there.json"))
    assert report["inputs"][0]["path"] == "s3://bench/good/c016_run01.json.gz"
    assert "slo-gate check s3://bench/good/c016_run01.json.gz --policy s3://bench/slo.yaml" in json.dumps(
        report
    )


def test_what_lies_beside_a_lone_object_is_seen(slo_gate: Process, bucket: Bucket) -> None:
    bucket.put("a/r.json.gz", RESULT.read_bytes())
    bucket.put("a/r.json.gz.slo.json", b'{"notes": ["a note beside it"]}')
    found = slo_gate("inspect", "s3://bench/a/r.json.gz", **bucket.env)
    assert found.returncode == 0
    assert "a note beside it" in found.stdout
    bucket.put("a/r.json.gz.slo.json", b'{"result": {"sha256": "0"}}')
    found = slo_gate("inspect", "s3://bench/a/r.json.gz", **bucket.env)
    assert found.returncode == 3
    assert found.stderr.startswith(
        "error: s3://bench/a/r.json.gz.slo.json: the sidecar was written for other"
    )


def test_a_report_never_lands_on_what_is_read(slo_gate: Process, bucket: Bucket) -> None:
    bucket.put("a/r.json.gz", RESULT.read_bytes())
    bucket.put("slo.yaml", POLICY.read_bytes())
    for target in ("s3://bench/a/r.json.gz", "s3a://bench/a/r.json.gz", "s3://bench/slo.yaml"):
        found = slo_gate(
            "check", "s3://bench/a", "--policy", "s3://bench/slo.yaml", "--json", target, **bucket.env
        )
        assert found.returncode == 2
        assert "the output would overwrite what is read" in found.stderr
    assert bucket.get("a/r.json.gz") == RESULT.read_bytes()
    assert bucket.get("slo.yaml") == POLICY.read_bytes()


def test_a_stale_report_of_a_bucket_says_that_there_is_no_verdict(slo_gate: Process, bucket: Bucket) -> None:
    bucket.put("r.json", b'{"schema_version": 1, "verdict": "pass"}')
    found = slo_gate(
        "check", "s3://bench/none.json", "--policy", POLICY, "--json", "s3://bench/r.json", **bucket.env
    )
    assert found.returncode == 3
    assert json.loads(bucket.get("r.json"))["verdict"] == "error"


# ---- what goes wrong ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "code", "error"),
    [
        ("s3://bench/none.json", 3, "s3://bench/none.json: no such file"),
        ("s3://bench/none/", 3, "s3://bench/none: no such file"),
        ("s3://nobucket/a.json", 3, "s3://nobucket/a.json: no such file"),
        ("s3://bench/none*.json", 3, "s3://bench/none*.json: no file matches"),
        ("s3://nobucket/*.json", 3, "s3://nobucket/*.json: no file matches"),
        ("gs://bench/a.json", 2, "gs://bench/a.json: a URL that begins with gs:// is read by packages"),
    ],
)
def test_a_result_that_is_not_there_is_an_error(
    slo_gate: Process, bucket: Bucket, result: str, code: int, error: str
) -> None:
    found = slo_gate("check", result, "--policy", POLICY, **bucket.env)
    assert found.stderr.startswith(f"error: {error}")
    assert found.returncode == code


@pytest.mark.parametrize("option", ["--policy", "--json", "--baseline"])
def test_what_is_not_there_is_an_error_wherever_it_is_named(
    slo_gate: Process, bucket: Bucket, option: str
) -> None:
    more = [] if option == "--policy" else ["--policy", POLICY]
    found = slo_gate("check", RESULT, *more, option, "s3://nobucket/a.yaml", **bucket.env)
    assert found.returncode == (3 if option == "--baseline" else 2)
    assert found.stderr.startswith("error: s3://nobucket/a.yaml: ")
    assert "no such" in found.stderr


def test_credentials_that_are_wrong_or_missing_are_told_and_never_printed(
    slo_gate: Process, bucket: Bucket
) -> None:
    bucket.put("r.json.gz", RESULT.read_bytes())
    without = {**bucket.env, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    found = slo_gate("check", "s3://bench/r.json.gz", "--policy", POLICY, **without)
    assert found.returncode == 3
    assert "s3://bench/r.json.gz: cannot be read: no credentials for the store are found" in found.stderr
    HTTP.request("POST", f"{bucket.address}/moto-api/reset-auth", body=b"0")  # from now on keys are checked
    try:
        for words in (["s3://bench/r.json.gz"], [RESULT, "--json", "s3://bench/out.json"]):
            found = slo_gate("check", *words, "--policy", POLICY, **bucket.env)
            assert found.returncode == (3 if len(words) == 1 else 2)
            assert "access is denied: check the credentials of this environment" in found.stderr
            assert not {"AKIAREMOTE", "SECRETKEY"} & set(found.stderr.split())
            assert "SECRETKEY" not in found.stdout + found.stderr
            assert not found.stdout
    finally:
        HTTP.request("POST", f"{bucket.address}/moto-api/reset-auth", body=b"inf")


class _Failing(BaseHTTPRequestHandler):
    """Answers by the first part of the path: a status, `cut` (less than announced), `slow`, `ok`."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        how, content = self.path.split("/")[1].partition("?")[0], RESULT.read_bytes()
        if how == "slow":
            time.sleep(3)
        status = int(how) if how.isdecimal() else 200
        content = content if status == 200 else b"<Error><Code>SECRET</Code></Error>"
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) + 100 * (how == "cut")))
        self.send_header("Last-Modified", "Wed, 21 Oct 2026 07:28:00 GMT")
        self.send_header("ETag", '"1"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)
        self.close_connection = True


@pytest.fixture(scope="module")
def failing() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Failing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


FAULTS = {
    "401": "access is denied: check the credentials of this environment",
    "403": "access is denied: check the credentials of this environment",
    "404": "no such file",
    "429": "the store asks for fewer requests (HTTP 429): try again later",
    "500": "the store failed (HTTP 500)",
    "503": "the store failed (HTTP 503)",
    "cut": "the answer ended before all of it came: run this again",
    "slow": "the store did not answer in time",
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("scheme", ["http", "s3"])
def test_a_store_that_fails_is_an_error_without_a_secret(
    slo_gate: Process, failing: str, scheme: str, fault: str
) -> None:
    env = {**KEYS, "AWS_ENDPOINT_URL": f"http://{failing}", "FSSPEC_S3": json.dumps(AT_ONCE)}
    if scheme == "http" and fault == "slow":
        pytest.skip("a minute passes before the time-out of a web server")
    url = (
        f"http://me:SECRET@{failing}/{fault}/r.json.gz?sig=SECRET"
        if scheme == "http"
        else f"s3://{fault}/r.json.gz"
    )
    found = slo_gate("check", url, "--policy", POLICY, "--json", "r.json", **env)
    assert FAULTS[fault] in found.stderr
    assert found.returncode == 3
    assert "SECRET" not in found.stderr + found.stdout
    assert not found.stdout


def test_a_signed_url_is_read_and_shown_without_its_signature(
    slo_gate: Process, failing: str, tmp_path: Path
) -> None:
    url = f"http://{failing}/ok/r.json.gz?X-Amz-Signature=SECRET"
    found = slo_gate("check", url, "--policy", POLICY, "--json", "r.json", "--html", "r.html", "-v")
    assert found.returncode == 4  # one run of ten
    for text in (
        found.stdout,
        found.stderr,
        *(path.read_text(encoding="utf-8") for path in tmp_path.iterdir()),
    ):
        assert "SECRET" not in text
    report = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert report["inputs"][0]["path"] == f"http://{failing}/ok/r.json.gz"
    plain = slo_gate("check", RESULT, "--policy", POLICY, "--format", "json")
    assert report["inputs"][0]["sha256"] == json.loads(plain.stdout)["inputs"][0]["sha256"]
    assert report["objectives"] == json.loads(plain.stdout)["objectives"]
