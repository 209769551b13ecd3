"""Noise: variance components by hand, what can be shown by scipy, and the rules that follow."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from scipy.stats import nct, t

from gate import history, policy, stats
from gate.advise.noise import noise, why_no_rule
from gate.model import Kind, Noise, SessionRecord, Verdict
from tests.conftest import Process
from tests.history import made


def test_variance_components_by_hand() -> None:
    # Means 2 and 6: within (1 + 1 + 1 + 1) / 2 = 2; of means (4 + 4) / 1 = 8; between 8 - 2 / 2 = 7.
    found = stats.variance_components([np.array([1.0, 3.0]), np.array([5.0, 7.0])])
    assert found is not None
    assert (found.within**2, found.between**2) == (pytest.approx(2), pytest.approx(7))
    assert (found.groups, found.figures) == (2, 4)
    assert found.of_mean(2) == pytest.approx(math.sqrt(7 + 2 / 2))


def test_a_change_of_level_is_no_spread_between_groups() -> None:
    groups = [np.array([x, x + 1.0]) for x in (0.0, 1.0, 10.0, 11.0)]
    found = stats.variance_components(groups, [2])
    # Means 0.5, 1.5 | 10.5, 11.5: (0.25 * 4) / (4 - 2) = 0.5; within 0.5; between 0.5 - 0.25.
    assert found is not None
    assert (found.within**2, found.between**2) == (pytest.approx(0.5), pytest.approx(0.25))


@pytest.mark.parametrize("groups", [[], [[1.0, 2.0]], [[1.0], [2.0]]])
def test_too_few_give_no_components(groups: list[list[float]]) -> None:
    assert stats.variance_components([np.array(group) for group in groups]) is None


def test_equal_figures_have_no_spread() -> None:
    found = stats.variance_components([np.ones(3)] * 4)
    assert found is not None
    assert (found.within, found.between) == (0, 0)


def test_components_of_a_known_spread_come_back() -> None:
    rng = np.random.default_rng(3)
    groups = [rng.normal(0, 0.04) + rng.normal(0, 0.02, 5) for _ in range(2_000)]
    found = stats.variance_components(groups)
    assert found is not None
    assert found.within == pytest.approx(0.02, rel=0.05)
    assert found.between == pytest.approx(0.04, rel=0.05)


@pytest.mark.parametrize(("df", "alpha", "power"), [(8, 0.05, 0.8), (8, 0.01, 0.8), (29, 0.05, 0.9)])
def test_what_is_detectable_has_about_the_power_it_says(df: float, alpha: float, power: float) -> None:
    shift = stats.detectable(2.0, df, alpha, power)
    exact = 1 - nct.cdf(t.ppf(1 - alpha, df), df, shift / 2.0)
    assert exact == pytest.approx(power, abs=0.02)


def found_in(number: int = 40, **facts: object) -> Noise:
    return noise(made.sessions(number, step=0.0, **facts), "store", "main", {})  # type: ignore[arg-type]


def test_the_noise_that_was_put_in_is_found() -> None:
    figures = {one.id: one for one in found_in(300).loads[0].figures}
    common = math.sqrt((2 * 0.01**2 + 0.03**2) / 3)  # every third session has three times the noise
    for id_, own in (("ttft.p50", 0.005), ("tpot.p90", 0.01)):
        assert figures[id_].run_sigma == pytest.approx(own, rel=0.1)
        assert figures[id_].session_sigma == pytest.approx(common, rel=0.15)


def test_the_growth_that_can_be_shown_is_that_of_its_t_test() -> None:
    (load,) = found_in().loads
    for one in load.figures:
        error = one.run_sigma * math.sqrt(2 / 5)
        shift = (t.ppf(1 - 0.05 / 6, 8) + t.ppf(0.8, 8)) * error
        assert one.same_job_growth == pytest.approx(math.expm1(shift), rel=1e-6)
        error = math.sqrt(one.session_sigma**2 + one.run_sigma**2 / 5) * math.sqrt(1 + 1 / 30)
        shift = (t.ppf(1 - 0.05 / 6, 29) + t.ppf(0.8, 29)) * error
        assert one.stored_growth == pytest.approx(math.expm1(shift), rel=1e-6)
        least = math.expm1((t.ppf(0.95, 29) + t.ppf(0.8, 29)) * error)
        assert one.max == pytest.approx(math.ceil(100 * least) / 100)


def test_a_slower_build_is_no_noise_and_sessions_left_out_are_none() -> None:
    quiet, slower = (
        {one.id: one for one in noise(made.sessions(60, step=step, at=30), "s", "main", {}).loads[0].figures}
        for step in (0.0, 0.2)
    )
    for id_, one in quiet.items():
        assert slower[id_].session_sigma == pytest.approx(one.session_sigma, rel=0.1, abs=0.002)
    records = made.sessions(40)
    left = noise(records, "s", "main", {one.id: "failed" for one in records[:5]})
    assert (left.loads[0].sessions, left.loads[0].left_out) == (35, 5)


def test_nine_sessions_are_no_band_and_one_run_shows_nothing_in_one_job() -> None:
    assert {one.stored_growth for one in found_in(9).loads[0].figures} == {None}
    assert all(one.max is not None for one in found_in(9).loads[0].figures)
    assert found_in(1).regression == ""
    assert noise([], "s", "main", {}).regression == ""


def test_an_unchanged_build_passes_the_max_in_four_of_five() -> None:
    # By the rule itself: a prediction band over thirty sessions, one new session; STATS D.
    rng = np.random.default_rng(7)
    sigma = 0.03
    known = stats.Components(0.0, sigma, 30, 30)
    limit = stats.detectable(known.of_mean(5) * math.sqrt(1 + 1 / 30), 29, 0.05, 0.8)
    passed = sum(
        stats.band_shift(rng.normal(0, sigma, 30), rng.normal(0, sigma, 1)).upper(0.05) <= limit
        for _ in range(1_000)
    )
    assert 750 <= passed <= 850


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("noise") / "store"
    history.add(history.open_store(str(path)), made.sessions(30, step=0.0))
    return str(path)


def test_the_command_prints_the_section_that_a_policy_takes(store: str, slo_gate: Process) -> None:
    done = slo_gate("history", "noise", "--store", store, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines()[1:])) <= 80  # the first has the name of the store
    section = done.stdout[done.stdout.index("regression:") :]
    text = f"version: 1\ngoodput: {{min: 99%}}\nslo: {{ttft: {{p99: 1s}}}}\n{section}"
    rules = [one for one in policy.parse(text.encode(), "slo.yaml").objectives if one.kind is Kind.REGRESSION]
    document = json.loads(slo_gate("history", "noise", "--store", store, "--json").stdout)
    figures = {one["id"]: one["max"] for one in document["loads"][0]["figures"]}
    assert {one.id.removeprefix("regression."): one.bound for one in rules} == figures


def test_a_load_of_one_session_has_no_empty_table(tmp_path: Path, slo_gate: Process) -> None:
    path = tmp_path / "few"
    history.add(history.open_store(str(path)), made.sessions(1))
    said = slo_gate("history", "noise", "--store", str(path), COLUMNS="80").stdout
    assert "concurrency 16: 1 session fit for a baseline\n  nothing to compare: two sessions" in said
    assert "figure" not in said


def test_init_says_no_secret_of_a_store_that_bears_no_rule(tmp_path: Path, slo_gate: Process) -> None:
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(bare)], check=True)
    history.add(history.open_store(f"git:{bare}#h"), made.sessions(1))
    done = slo_gate("init", "--for", "chat", "--from-history", f"git:file://u:s3cret@{bare}#h", cwd=tmp_path)
    assert (done.returncode, "s3cret" in done.stdout + done.stderr) == (2, False)
    assert f"slo-gate history list --store 'git:file://{bare}#h'" in done.stderr


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (made.sessions(1), "two sessions of two runs or more are the least"),
        (made.sessions(30, step=0.0, at_target=False), "no load was judged"),
        (made.sessions(30, step=0.0, sigma=1.0), "every max is over 25%, so much do the sessions vary"),
    ],
    ids=["few", "not judged", "noisy"],
)
def test_why_no_rule_follows(kept: list[SessionRecord], why: str, tmp_path: Path, slo_gate: Process) -> None:
    path = str(tmp_path / "store")
    calm = [replace(one, verdict=Verdict.PASS, exit_code=0, objectives=()) for one in kept]
    history.add(history.open_store(path), calm)
    if "judged" in why:  # no baseline has them, so nothing of them is left
        assert why_no_rule(noise(calm, path, "main", {})) == why
        return
    assert f"No rule follows: {why}." in slo_gate("history", "noise", "--store", path).stdout
    done = slo_gate("init", "--for", "chat", "--from-history", path, cwd=tmp_path)
    assert (done.returncode, why in done.stderr) == (2, True)


def test_init_writes_it(store: str, tmp_path: Path, slo_gate: Process) -> None:
    done = slo_gate("init", "--for", "chat", "--concurrency", "16", "--from-history", store, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = policy.load(str(tmp_path / "slo.yaml"))
    assert written.history is not None
    assert (written.history.store, written.history.base_branch) == (store, "main")
    expected = noise(made.sessions(30, step=0.0), store, "main", {}).loads[0].figures
    rules = {one.id: one.bound for one in written.objectives if one.kind is Kind.REGRESSION}
    assert rules == {f"regression.{one.id}": one.max for one in expected}


def test_init_writes_no_secret_of_an_address(tmp_path: Path, slo_gate: Process) -> None:
    """It goes into a file that is committed."""
    subprocess.run(["git", "init", "-q", "--bare", "hub.git"], cwd=tmp_path, check=True)
    history.add(history.open_store(f"git:{tmp_path / 'hub.git'}#h"), made.sessions(12, step=0.0))
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    instead = ("config", f"url.{tmp_path / 'hub.git'}.insteadOf", "https://user:s3cret@example.org/x.git")
    subprocess.run(["git", *instead], cwd=tmp_path, check=True)
    named = "git:https://user:s3cret@example.org/x.git#h"
    done = slo_gate("init", "--for", "chat", "--concurrency", "16", "--from-history", named, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "slo.yaml").read_text()
    assert 'history: {store: "git:https://example.org/x.git#h", base_branch: "main"}' in text
    assert "s3cret" not in text + done.stdout + done.stderr


def test_init_of_a_store_without_accepted_sessions_is_an_error(tmp_path: Path, slo_gate: Process) -> None:
    path = tmp_path / "few"
    history.add(history.open_store(str(path)), made.sessions(1))
    done = slo_gate("init", "--for", "chat", "--from-history", str(path), cwd=tmp_path)
    assert done.returncode == 2
    assert "no rule of growth follows" in done.stderr
