"""The numbers as OpenMetrics text: for GitLab's metrics report, a textfile collector or a push gateway.

Format: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md, gauges
only. A value that is not known has no line: it is never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..model import AnyReport, ErrorReport, Report, Verdict
from . import format as f
from .unmet import unique_ids

_HELP = {
    "slo_gate_exit_code": "Exit code of the check; 0 lets the change through.",
    "slo_gate_goodput_ratio": "Share of attempted requests that met every bound at once.",
    "slo_gate_requests": "Attempted and good requests of the runs at the target.",
    "slo_gate_latency_seconds": "Nearest-rank percentiles of completed requests.",
    "slo_gate_objective_met": "1 where the objective is shown to hold, 0 where it is not.",
    "slo_gate_objective_observed": "Observed value of an objective, in its unit.",
    "slo_gate_objective_bound": "Bound of an objective, in its unit.",
}
_QUANTILES = {"p50": "0.5", "p90": "0.9", "p99": "0.99"}
Sample = tuple[str, dict[str, str], float | None]


def emit(report: AnyReport) -> str:
    """OpenMetrics text that ends in `# EOF`."""
    if isinstance(report, ErrorReport):
        samples: list[Sample] = [("slo_gate_exit_code", {}, report.exit_code)]
    else:
        samples = list(_samples(report))
    lines = []
    for family, text in _HELP.items():
        written = [_line(*sample) for sample in samples if sample[0] == family and _known(sample[2])]
        if written:
            lines += [f"# TYPE {family} gauge", f"# HELP {family} {text}", *written]
    return "\n".join([*lines, "# EOF", ""])


def _samples(report: Report) -> Iterator[Sample]:
    policy = {"policy": report.policy.name}
    if report.policy.profile:
        policy["profile"] = report.policy.profile
    yield "slo_gate_exit_code", policy, report.exit_code
    if report.goodput:
        yield "slo_gate_goodput_ratio", policy, report.goodput.fraction
        yield "slo_gate_requests", {**policy, "kind": "attempted"}, report.goodput.attempted
        yield "slo_gate_requests", {**policy, "kind": "good"}, report.goodput.good
    for column in f.LABELS:
        if stats := report.metrics.get(column):
            for name, quantile in _QUANTILES.items():
                labels = {**policy, "metric": column.removesuffix("_s"), "quantile": quantile}
                yield "slo_gate_latency_seconds", labels, getattr(stats, name)
    yield from _objectives(report, policy)


def _objectives(report: Report, policy: dict[str, str]) -> Iterator[Sample]:
    for name, check in zip(unique_ids(report.checks), report.checks, strict=True):
        labels = {**policy, "objective": name}
        if check.verdict != Verdict.SKIPPED:
            met = int(check.verdict == Verdict.PASS)
            yield "slo_gate_objective_met", {**labels, "level": check.level.value}, met
        measured = {**labels, "unit": check.unit}
        yield "slo_gate_objective_observed", measured, check.observed
        yield "slo_gate_objective_bound", measured, check.bound


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _line(name: str, labels: dict[str, str], value: float | None) -> str:
    written = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{written}}} {value!r}" if written else f"{name} {value!r}"


def _escaped(text: str) -> str:
    return f.plain(text).replace("\\", "\\\\").replace('"', '\\"')
