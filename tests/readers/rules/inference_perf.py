"""How the rules are broken in the files of inference-perf: rows, a stage as JSON or YAML, a summary."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import FIXTURES
from tests.readers.rules import Alone, Change, Form, Write

CASES = FIXTURES / "inference-perf" / "typical"  # one stage, concurrency 6, 150 requests
REQUESTS = "per_request_lifecycle_metrics.json"
STAGE = "stage_0_lifecycle_metrics.json"
SUMMARY = "summary_lifecycle_metrics.json"
Document = dict[str, Any]
CLEAN = {"global": {"warnings": [], "errors": []}, "reports": {}}


def write(*names: str) -> Write:
    def apply(folder: Path) -> Sequence[str]:
        for name in names:
            save(folder / name, load(CASES / f"{name}.gz" if name == REQUESTS else CASES / name))
        (folder / "config.yaml").write_bytes((CASES / "config.yaml").read_bytes())
        save(folder / "validation.json", CLEAN)
        return [names[0]]

    return apply


def write_yaml(folder: Path) -> Sequence[str]:
    stage = load(CASES / STAGE)
    (folder / STAGE.replace(".json", ".yaml")).write_text(yaml.safe_dump(stage), encoding="utf-8")
    return [STAGE.replace(".json", ".yaml")]


def load(path: Path) -> Any:
    data = path.read_bytes()
    if path.suffix == ".yaml":
        return yaml.safe_load(data)
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def save(path: Path, content: Any) -> None:
    text = yaml.safe_dump(content) if path.suffix == ".yaml" else json.dumps(content)
    path.write_text(text, encoding="utf-8")


def whole(change: Callable[[Document], object], pattern: str = "s*lifecycle_metrics.*") -> Change:
    """`change` applied to the aggregate."""

    def apply(folder: Path) -> None:
        for path in folder.glob(pattern):
            content = load(path)
            change(content)
            save(path, content)

    return apply


def rows(change: Callable[[int, Document], object], *, stage: bool = False) -> Change:
    """`change` applied to each row, by its number; the stage file is taken away, or kept."""

    def apply(folder: Path) -> None:
        content = load(folder / REQUESTS)
        for number, row in enumerate(content):
            change(number, row)
        save(folder / REQUESTS, content)
        if not stage:
            (folder / STAGE).unlink()

    return apply


def response(row: Document) -> Document:
    found = row["info"]["response_metrics"]
    assert isinstance(found, dict)
    return found


def tokens(row: Document, number: int | None) -> None:
    answer = response(row)
    answer["output_tokens"] = number
    if answer.get("server_usage"):
        answer["server_usage"]["completion_tokens"] = number


def unstreamed(row: Document) -> None:
    response(row).update(chunk_times=[], output_token_times=[])
    row.pop("computed_metrics", None)


def at_once(row: Document) -> None:
    """All chunks within 0.1 ms of E2E's end."""
    times = response(row)["chunk_times"]
    response(row)["chunk_times"] = [row["end_time"] - 1e-4 + k * 1e-6 for k in range(len(times))]


def halve(row_file: Path) -> None:
    content = load(row_file)
    save(row_file, content[: len(content) // 2])


def lose(folder: Path) -> None:
    halve(folder / REQUESTS)
    (folder / STAGE).unlink()


def second_stage(folder: Path) -> None:
    """A second stage a minute later, none of whose requests meets a bound."""
    content = load(folder / REQUESTS)
    slow = json.loads(json.dumps(content[:60]))
    for row in slow:
        row["start_time"] += 60
        row["end_time"] += 160
        response(row)["chunk_times"] = [time + 160 for time in response(row)["chunk_times"]]
    save(folder / REQUESTS, [*content, *slow])
    for name in (STAGE, "config.yaml"):
        (folder / name).unlink()


def bare(folder: Path) -> None:
    rows(lambda n, row: row.pop("info"))(folder)
    (folder / "config.yaml").unlink()


def errors(where: str) -> Change:
    def apply(folder: Path) -> None:
        group = {"warnings": [], "errors": [{"message": "counts do not reconcile"}]}
        named = {"global": group, "reports": {}} if where == "global" else CLEAN | {"reports": {where: group}}
        save(folder / "validation.json", named)

    return apply


ERROR = {"error_type": "HTTP Error 500", "error_msg": "boom"}
JUDGES = ("ttft.p50", "tpot.p50", "e2e.p50", "error_rate", "goodput")


def latency(content: Document) -> Document:
    found = content["successes"]["latency"]
    assert isinstance(found, dict)
    return found


def burst(content: Document) -> None:
    blocks = latency(content)
    e2e, count = blocks["request_latency"], content["successes"]["output_len"]["mean"]
    blocks["time_to_first_token"] = {key: value - 1e-4 for key, value in e2e.items()}
    for name in ("time_per_output_token", "inter_token_latency"):
        blocks[name] = dict.fromkeys(blocks[name], 1e-4 / (count - 1))


def lengths(content: Document, *keys: str) -> None:
    for name in ("output_len", "output_tokens"):
        block = content["successes"][name]
        block.update(dict.fromkeys(keys or block, 0.0))


def fail(share: int) -> Change:
    """One of `share` requests failed."""

    def change(content: Document) -> None:
        total = content["load_summary"]["count"]
        content["failures"] = {"count": total // share}
        content["successes"]["count"] = total - total // share

    return whole(change)


def no_tokens(content: Document) -> None:
    content["successes"] |= {"output_len": None, "output_tokens": None}
    for name in ("time_to_first_token", "time_per_output_token", "inter_token_latency"):
        latency(content)[name] = None


def unstreamed_whole(content: Document) -> None:
    latency(content)["time_to_first_token"] = None


LOWER = ("min", "p0.1", "p1", "p5", "p10", "p25", "median")
AGGREGATE: dict[str, Change] = {
    "lost rows": whole(lambda content: content["load_summary"].update(requested_rate=300.0)),
    "counts": whole(lambda content: content["load_summary"].update(count=120)),
    "failed": fail(3),
    "all failed": fail(1),
    "zero tokens": whole(lengths),
    "null tokens": whole(no_tokens),
    "half the tokens": whole(lambda content: lengths(content, *LOWER)),
    "one burst": whole(burst),
    "not streamed": whole(unstreamed_whole),
    "zero time": whole(
        lambda content: latency(content)["time_to_first_token"].update(dict.fromkeys(LOWER, 0.0))
    ),
    "negative time": whole(lambda content: latency(content)["request_latency"].update(min=-1.0)),
    "falling percentiles": whole(lambda content: latency(content)["request_latency"].update({"p99": 0.001})),
    "tool's verdict": errors(STAGE),
    "retried": whole(lambda content: content.update(retries={"requests_retried": 4, "attempts": 4})),
    "repetitions": whole(lambda content: content.update(aggregated_repetitions=3)),
}
CANNOT = {
    "token totals": "holds no rows to add up",
    "cut rows": "holds no rows",
    "retries": "says itself where a request was repeated",
    "summary alone": "counts failures itself",
}
VALIDATED = Alone("validation.json", "has inference-perf's word on its run", ("tool's verdict",))
OF_ROWS = ("lost rows", "failed: beside its stage", "zero tokens")
KINDS = {
    "requests": Form(
        write(REQUESTS, STAGE),
        JUDGES,
        {
            "lost rows": lambda folder: halve(folder / REQUESTS),
            "lost rows: by its configuration": lose,
            "counts": whole(lambda content: content["successes"].update(count=140)),
            "failed": rows(lambda n, row: n % 3 or row.update(error=ERROR)),
            "failed: beside its stage": rows(lambda n, row: n % 3 or row.update(error=ERROR), stage=True),
            "all failed": rows(lambda n, row: row.update(error=ERROR)),
            "zero tokens": rows(lambda n, row: tokens(row, 0), stage=True),
            "null tokens": rows(lambda n, row: [tokens(row, None), unstreamed(row)]),
            "half the tokens": rows(lambda n, row: n % 2 or tokens(row, 0)),
            "token totals": whole(
                lambda content: content["successes"]["output_tokens"].update(
                    mean=content["successes"]["output_tokens"]["mean"] / 2
                )
            ),
            "cut rows": rows(
                lambda n, row: n % 10 or response(row).update(chunk_times=response(row)["chunk_times"][:4])
            ),
            "one burst": rows(lambda n, row: at_once(row)),
            "not streamed": rows(lambda n, row: unstreamed(row)),
            "zero time": rows(
                lambda n, row: response(row).update(
                    chunk_times=[row["start_time"], *response(row)["chunk_times"][1:]]
                )
            ),
            "negative time": rows(lambda n, row: n % 3 or row.update(end_time=row["start_time"] - 1)),
            "falling percentiles": AGGREGATE["falling percentiles"],
            "tool's verdict": errors("global"),
            "tool's verdict: of its rows": errors(REQUESTS),
            "retries": bare,
            "retried": rows(lambda n, row: n % 9 or row["info"].update(retries_attempted=1)),
            "several loads": second_stage,
        },
        {
            "repetitions": "is a list without a place for it",
            "summary alone": "has stage files that count failures themselves",
        },
        (
            VALIDATED,
            Alone(REQUESTS, "shows what the stage file does not count", OF_ROWS),
            Alone(
                "stage_*", "says how many requests there were, where config.yaml is gone too", ("lost rows",)
            ),
            Alone(
                "config.yaml", "says how many requests were asked for", ("lost rows: by its configuration",)
            ),
        ),
    ),
    "stage": Form(
        write(STAGE),
        JUDGES,
        AGGREGATE,
        {**CANNOT, "several loads": "is one load a file"},
        (VALIDATED,),
    ),
    "stage as YAML": Form(
        write_yaml,
        JUDGES,
        {**AGGREGATE, "tool's verdict": errors("global")},
        {**CANNOT, "several loads": "is one load a file"},
        (VALIDATED,),
    ),
    "summary": Form(
        write(SUMMARY, STAGE),
        JUDGES,
        {
            **AGGREGATE,
            "lost rows": whole(lambda stage: stage["load_summary"].update(requested_rate=300.0), "stage*"),
            "several loads": lambda folder: (
                [(folder / name).unlink() for name in (STAGE, "config.yaml")] and None
            ),
        },
        CANNOT,
        (VALIDATED, Alone(STAGE, "says how many requests were asked for", ("lost rows",))),
    ),
}
