"""`slo-gate pull`: what is asked for, what is written, and what is said of an answer that is bad."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.conftest import ROOT, Process
from tests.live.conftest import NOW, Pull, answer, engine, steps

QUERY = "/api/v1/query_range"
SPAN = ("--from", NOW, "--to", NOW + 120)
POLICY = """\
version: 1
name: canary
slo: {e2e: {p90: 2s}}
limits: {error_rate: {max: 1%}}
evidence: {attempted: gateway_requests_total, decide: point}
"""
PAGE = """\
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{le="2.0",model_name="m"} %d
vllm:e2e_request_latency_seconds_bucket{le="+Inf",model_name="m"} %d
vllm:e2e_request_latency_seconds_count{model_name="m"} %d
"""


def url(server: HTTPServer) -> str:
    return server.url_for("").rstrip("/")


def forms(server: HTTPServer) -> list[dict[str, str]]:
    """What was asked, in order."""
    return [dict(request.form) for request, _ in server.log]


def test_the_raw_series_of_every_engine_are_asked_for(pull: Pull, httpserver: HTTPServer) -> None:
    httpserver.expect_request(QUERY, method="POST").respond_with_data(answer(*engine()))
    done = pull(url(httpserver), *SPAN, "--step", "1m", "--match", '{pod=~"canary-.*"}')
    assert (done.returncode, done.stderr) == (0, "")
    (asked,) = forms(httpserver)
    assert (asked["start"], asked["end"], asked["step"]) == (f"{NOW}.000", f"{NOW + 120}.000", "60")
    found = re.fullmatch(r'\{__name__=~"(.*)",pod=~"canary-.\*"\}', asked["query"])
    assert found
    for name in (
        "vllm:e2e_request_latency_seconds_bucket",  # as vLLM writes it
        "vllm_e2e_request_latency_seconds_bucket",  # relabelled
        "vllm:e2e_request_latency_seconds",  # native
        "sglang:time_to_first_token_seconds_count",
        "trtllm_request_success_total",
        "nv_inference_first_response_histogram_ms_bucket",
        "gen_ai.server.request.duration_bucket",  # Prometheus 3
        "gen_ai_server_request_duration_seconds_bucket",
        "process_start_time_seconds",
    ):
        assert re.fullmatch(found[1], name), name
    assert not re.fullmatch(found[1], "up")
    document = json.loads(done.stdout)
    assert {json.dumps(one, sort_keys=True) for one in document["data"]["result"]} == {
        json.dumps(one, sort_keys=True) for one in engine()
    }
    assert document["slo_gate_pull"] == {
        "url": url(httpserver) + "/" * url(httpserver).endswith("/"),
        "match": '{pod=~"canary-.*"}',
        "attempted": "",
        "begin_s": NOW,
        "end_s": NOW + 120,
        "step_s": 60,
    }


def test_what_is_pulled_is_judged(
    pull: Pull, slo_gate: Process, httpserver: HTTPServer, tmp_path: Path
) -> None:
    """By hand: 200 requests in two windows, 2 above 2 s, 200 counted by the gateway."""
    gateway = steps("gateway_requests_total", [1000, 1100, 1200])
    httpserver.expect_ordered_request(QUERY).respond_with_data(answer(*engine()))
    httpserver.expect_ordered_request(QUERY).respond_with_data(answer(gateway))
    done = pull(url(httpserver), *SPAN, "--attempted", 'gateway_requests_total{route="chat"}', "-o", "w.json")
    assert done.returncode == 0
    assert "wrote w.json: 2 windows of 6 series; next: slo-gate check w.json" in done.stderr
    assert forms(httpserver)[1]["query"] == '{__name__=~"gateway_requests(?:_total)?",route="chat"}'
    (tmp_path / "slo.yaml").write_text(POLICY, encoding="utf-8")
    report = json.loads(slo_gate("check", "w.json", "--format", "json", cwd=tmp_path).stdout)
    assert report["verdict"] == "pass"
    e2e, error_rate = report["objectives"][:2]
    assert (e2e["n"], e2e["misses_range"]) == (200, [2, 2])
    assert error_rate["observed"] == 0


def test_it_is_piped_into_check(
    pull: Pull, slo_gate: Process, httpserver: HTTPServer, tmp_path: Path
) -> None:
    httpserver.expect_request(QUERY).respond_with_data(
        answer(*engine(), steps("gateway_requests_total", [0, 100, 200]))
    )
    data = pull(url(httpserver), *SPAN).stdout
    (tmp_path / "slo.yaml").write_text(POLICY, encoding="utf-8")
    words = [sys.executable, "-m", "gate", "check", "-"]
    done = subprocess.run(
        words, input=data, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}
    )
    assert (done.returncode, done.stdout[:4]) == (0, "PASS"), done.stdout + done.stderr


def test_the_same_answer_gives_the_same_bytes(pull: Pull, httpserver: HTTPServer) -> None:
    httpserver.expect_ordered_request(QUERY).respond_with_data(answer(*engine()))
    httpserver.expect_ordered_request(QUERY).respond_with_data(answer(*reversed(engine())))
    assert pull(url(httpserver), *SPAN).stdout == pull(url(httpserver), *SPAN).stdout


# ---- what is missing ------------------------------------------------------------------------


def test_a_pod_that_vanished_before_the_end_is_never_a_pass(
    pull: Pull, slo_gate: Process, httpserver: HTTPServer, tmp_path: Path
) -> None:
    """The answer has no step without a sample: only what was asked for says that some are missing."""
    httpserver.expect_request(QUERY).respond_with_data(
        answer(*engine(), steps("gateway_requests_total", [0, 100, 200]))
    )
    (tmp_path / "slo.yaml").write_text(POLICY, encoding="utf-8")
    for minutes, verdict in ((2, "pass"), (4, "inconclusive")):
        done = pull(url(httpserver), "--from", NOW, "--to", NOW + 60 * minutes, "-o", "w.json")
        assert done.returncode == 0
        report = json.loads(slo_gate("check", "w.json", "--format", "json", cwd=tmp_path).stdout)
        assert report["verdict"] == verdict, report["headline"]
    assert "vanished between the scrapes" in json.dumps(report["runs"])


def test_what_is_missing_of_the_time_is_said(pull: Pull, httpserver: HTTPServer) -> None:
    httpserver.expect_request(QUERY).respond_with_data(
        answer(*engine(begin=NOW + 600), warnings=["partial\x1b[31m"])
    )
    done = pull(url(httpserver), "--from", NOW, "--to", NOW + 1200)
    assert done.returncode == 0
    assert "nothing before 2026-11-29 14:23:20 UTC: 10 min of what was asked are missing" in done.stderr
    assert "nothing after 2026-11-29 14:25:20 UTC: 8 min" in done.stderr
    assert "the server warns: partial" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_counter_that_is_not_there_is_said(pull: Pull, httpserver: HTTPServer) -> None:
    httpserver.expect_ordered_request(QUERY).respond_with_data(answer(*engine()))
    httpserver.expect_ordered_request(QUERY).respond_with_data(answer())
    done = pull(url(httpserver), *SPAN, "--attempted", "gateway_requests_total")
    assert (done.returncode, "has no gateway_requests_total" in done.stderr) == (0, True)


def test_a_selector_does_not_narrow_the_counter_and_that_is_said(pull: Pull, httpserver: HTTPServer) -> None:
    httpserver.expect_ordered_request(QUERY).respond_with_data(answer(*engine()))
    httpserver.expect_ordered_request(QUERY).respond_with_data(answer(steps("g_total", [0, 1, 2])))
    done = pull(url(httpserver), *SPAN, "--match", '{pod="c"}', "--attempted", "g_total")
    assert "--match does not narrow --attempted" in done.stderr


@pytest.mark.parametrize(
    ("series", "why"), [([], "no series of an engine"), (engine()[3:], "no latency histogram")]
)
def test_a_server_without_an_engine_is_exit_3(
    series: list[dict[str, Any]], why: str, pull: Pull, httpserver: HTTPServer, tmp_path: Path
) -> None:
    httpserver.expect_request(QUERY).respond_with_data(answer(*series))
    done = pull(url(httpserver), *SPAN, "--match", '{pod="c"}', "-o", "w.json")
    assert (done.returncode, why in done.stderr) == (3, True)
    assert "leave out --match" in done.stderr
    assert not (tmp_path / "w.json").exists()


# ---- answers that are none --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (401, "", "HTTP 401"),
        (403, "", "HTTP 403"),
        (404, "<html>", "HTTP 404"),
        (302, "", "HTTP 302"),
        (400, '{"status":"error","error":"bad\\nquery"}', "HTTP 400: bad query"),
        (503, "", "HTTP 503"),
        (200, "<html>log in</html>", "none of Prometheus' query API"),
        (200, "[" * 100_000, "none of Prometheus' query API"),
        (200, '{"status":"error","error":"too many samples"}', "too many samples"),
        (200, '{"status":"success","data":{"resultType":"vector","result":[]}}', "no series over time"),
    ],
)
def test_an_answer_that_is_none_is_exit_3(
    status: int, body: str, why: str, pull: Pull, httpserver: HTTPServer
) -> None:
    headers = {"Location": "http://127.0.0.1:1/"} if status == 302 else {}
    httpserver.expect_request(QUERY).respond_with_response(Response(body, status, headers))
    done = pull(url(httpserver), *SPAN)
    assert (done.returncode, why in done.stderr, done.stdout) == (3, True, ""), done.stderr


def test_a_server_that_stumbles_is_asked_again(pull: Pull, httpserver: HTTPServer) -> None:
    httpserver.expect_ordered_request(QUERY).respond_with_data("", 503)
    httpserver.expect_ordered_request(QUERY).respond_with_data(answer(*engine()))
    assert pull(url(httpserver), *SPAN).returncode == 0


def test_a_server_that_is_slow_or_away_is_exit_3(pull: Pull, httpserver: HTTPServer) -> None:
    def late(_: Request) -> Response:
        time.sleep(1)
        return Response(answer(*engine()))

    httpserver.expect_request(QUERY).respond_with_handler(late)
    done = pull(url(httpserver), *SPAN, "--timeout", "0.2")
    assert (done.returncode, "the time is up" in done.stderr) == (3, True), done.stderr
    done = pull("http://127.0.0.1:1", *SPAN)
    assert (done.returncode, "no connection" in done.stderr) == (3, True), done.stderr


# ---- credentials ----------------------------------------------------------------------------


def test_credentials_are_sent_and_never_shown(pull: Pull, httpserver: HTTPServer, tmp_path: Path) -> None:
    httpserver.expect_request(QUERY).respond_with_data(answer(*engine()))
    (tmp_path / "token").write_text("s3cret\n", encoding="utf-8")
    basic = base64.b64encode(b"me:s3cret").decode()
    ways: list[tuple[tuple[str, ...], dict[str, str], str]] = [
        (("--token-file", "token"), {}, "Bearer s3cret"),
        ((), {"SLO_GATE_PULL_TOKEN": "s3cret"}, "Bearer s3cret"),
        ((), {"SLO_GATE_PULL_USER": "me", "SLO_GATE_PULL_PASSWORD": "s3cret"}, f"Basic {basic}"),
    ]
    for words, env, header in ways:
        done = pull(url(httpserver), *SPAN, *words, **env)
        assert httpserver.log[-1][0].headers["Authorization"] == header
        assert "s3cret" not in done.stdout + done.stderr
        assert basic not in done.stdout + done.stderr


def test_a_wrong_token_says_where_it_is_taken_from(pull: Pull, httpserver: HTTPServer) -> None:
    httpserver.expect_request(QUERY).respond_with_data("", 401)
    done = pull(url(httpserver), *SPAN, SLO_GATE_PULL_TOKEN="s3cret")
    assert done.returncode == 3
    assert "$SLO_GATE_PULL_TOKEN" in done.stderr
    assert "s3cret" not in done.stderr


def test_a_password_in_an_address_is_refused_unshown(pull: Pull) -> None:
    done = pull("http://me:s3cret@127.0.0.1:1", *SPAN)
    assert (done.returncode, "SLO_GATE_PULL_PASSWORD" in done.stderr, "s3cret" in done.stderr) == (
        2,
        True,
        False,
    )


# ---- the command line ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "no server is named"),
        (["ftp://x"], "no http or https address"),
        (["http://a", "http://b"], "several servers"),
        (["http://a", "http://b/metrics"], "two ways"),
        (["http://a", "--every", "1m"], "--step"),
        (["http://a/metrics", "--step", "1m"], "only a Prometheus server"),
        (["http://a/metrics", "--for", "10s"], "shorter than --every"),
        (["http://a", "--for", "soon"], "no length of time"),
        (["http://a", "--from", "2026-01-01T00:00:00Z", "--for", "1h"], "the same twice"),
        (["http://a", "--from", "yesterday"], "is no time"),
        (["http://a", "--to", "2999-01-01T00:00:00Z"], "in the future"),
        (["http://a", "--for", "300d", "--step", "1s"], "more than the 11,000"),
        (["http://a", "--match", 'pod="x"'], "is no selector"),
        (["http://a", "--match", '{pod="x"} or up'], "is no selector"),
        (["http://a", "--attempted", "rate(x[5m])"], "names no counter"),
        (["http://a", "--token-file", "gone"], "cannot be read"),
        (["http://a", "--ca-file", "gone"], "cannot be read"),
    ],
)
def test_what_cannot_be_asked_is_exit_2(words: list[str], why: str, pull: Pull) -> None:
    done = pull(*words)
    assert (done.returncode, why in done.stderr) == (2, True), done.stderr


# ---- pages ----------------------------------------------------------------------------------


def test_pages_are_looked_at_again_and_again(pull: Pull, httpserver: HTTPServer, tmp_path: Path) -> None:
    """Two pages of one port are two processes, also where both say that they are one instance."""
    for path, times in (("/a/metrics", 1), ("/b/metrics", 2)):
        for look in (1, 2, 3):
            text = (PAGE % (9 * look * times, 10 * look * times, 10 * look * times)).replace(
                "{", '{instance="i",'
            )
            httpserver.expect_oneshot_request(path).respond_with_data(text, content_type="text/plain")
    urls = [httpserver.url_for(path) for path in ("/a/metrics", "/b/metrics")]
    done = pull(*urls, "--every", "0.5s", "--for", "1s", "-o", "w.json")
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "w.json").read_bytes())
    values = {
        (one["metric"]["instance"].partition("/")[2], one["metric"]["le"]): [
            text for _, text in one["values"]
        ]
        for one in document["data"]["result"]
        if "le" in one["metric"]
    }
    assert values == {
        ("a/metrics", "2.0"): ["9.0", "18.0", "27.0"],
        ("a/metrics", "inf"): ["10.0", "20.0", "30.0"],
        ("b/metrics", "2.0"): ["18.0", "36.0", "54.0"],
        ("b/metrics", "inf"): ["20.0", "40.0", "60.0"],
    }


def test_a_page_that_answers_late_does_not_make_the_window_short(pull: Pull, httpserver: HTTPServer) -> None:
    """A second of waiting, looks half a second apart: requests a second would be twice what they are."""

    def late(_: Request) -> Response:
        time.sleep(1)
        return Response(PAGE % (1, 2, 2), content_type="text/plain")

    httpserver.expect_request("/metrics").respond_with_handler(late)
    done = pull(httpserver.url_for("/metrics"), "--every", "0.5s", "--for", "0.5s")
    assert (done.returncode, "s late, which is too late" in done.stderr) == (3, True), done.stderr


def test_a_page_that_is_away_at_one_look_is_said(pull: Pull, httpserver: HTTPServer) -> None:
    httpserver.expect_ordered_request("/metrics").respond_with_data(
        PAGE % (1, 2, 2), content_type="text/plain"
    )
    httpserver.expect_ordered_request("/metrics").respond_with_data("", 404)
    httpserver.expect_ordered_request("/metrics").respond_with_data(
        PAGE % (3, 4, 4), content_type="text/plain"
    )
    done = pull(httpserver.url_for("/metrics"), "--every", "0.5s", "--for", "1s")
    assert done.returncode == 0
    assert "answers HTTP 404" in done.stderr
    assert [len(one["values"]) for one in json.loads(done.stdout)["data"]["result"]] == [2, 2, 2]


def test_a_page_that_is_away_at_the_first_look_is_not_waited_for(pull: Pull, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/metrics").respond_with_data("", 404)
    done = pull(httpserver.url_for("/metrics"), "--for", "30m")  # Process ends what takes so long
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert "answers HTTP 404" in done.stderr
    assert len(httpserver.log) == 1


@pytest.mark.parametrize("body", ["<html></html>", "", "{}", "# TYPE up gauge\nup 1\n", "\x00" * 64])
def test_a_page_that_is_none_is_exit_3(body: str, pull: Pull, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/metrics").respond_with_data(body, content_type="text/plain")
    done = pull(httpserver.url_for("/metrics"), "--every", "0.5s", "--for", "0.5s")
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
