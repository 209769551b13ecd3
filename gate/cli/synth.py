"""`slo-gate synth`: seeded synthetic results, as home-made rows or as vLLM writes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit, UsageError
from ._lines import show
from ._shared import named_here, quantity, save

if TYPE_CHECKING:
    from ..synth import Setting

_SHAPES = ("generic", "vllm")
_LAW = "MEAN[:STDDEV]"


@click.command(name="synth")
@click.argument("folder", type=named_here)
@click.option(
    "--format",
    "shape",
    type=click.Choice(_SHAPES),
    default="generic",
    show_default=True,
    help="The tool whose files to write.",
)
@click.option(
    "--requests", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help="In each run."
)
@click.option(
    "--runs", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many, seeds in a row."
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same bytes.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), help="Closed loop: requests in flight. Default: 32."
)
@click.option("--request-rate", metavar="RATE", help="Open loop instead, Poisson, e.g. 8/s.")
@click.option(
    "--cap", type=click.IntRange(min=1), help="Most in flight of an open loop; the rest wait in the client."
)
@click.option("--input-tokens", metavar=_LAW, default="800:300", show_default=True, help="Prompt lengths.")
@click.option("--output-tokens", metavar=_LAW, default="150:50", show_default=True, help="Output lengths.")
@click.option("--failures", metavar="SHARE", default="0%", show_default=True, help="Answered with HTTP 500.")
@click.option("--spikes", metavar="SHARE", default="0%", show_default=True, help="Held once while decoding.")
@click.option("--spike", metavar="TIME", default="1s", show_default=True, help="How long a spike lasts.")
@click.option(
    "--chunked-prefill/--no-chunked-prefill", default=True, show_default=True, help="As the server's flag."
)
@click.option(
    "--slower",
    metavar="SHARE",
    default="0%",
    show_default=True,
    help="A regression: every step takes longer.",
)
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def command(**options: Any) -> int:
    """Write synthetic results into FOLDER: a simulated server, not a measurement of one."""
    from msgspec.structs import replace

    from ..synth import SHAPES, simulate

    setting, folder = _setting(options), Path(options["folder"])
    digits = max(2, len(str(options["runs"])))
    for run in range(options["runs"]):
        trace = simulate(replace(setting, seed=setting.seed + run))
        files = SHAPES[options["shape"]](trace, f"run-{run + 1:0{digits}}")
        for name, content in files.items():
            if (folder / name).exists() and not options["force"]:
                hint = "name another folder, or --force"
                raise UsageError("the file is there already", str(folder / name), hint)
            save(folder / name, content, "name another folder")
        first = next(iter(files))
        failed = int(trace.failed.sum())
        show(f"{folder / first}: {setting.requests:,} requests, {failed:,} failed, seed {setting.seed + run}")
    return Exit.PASS


def _setting(options: dict[str, Any]) -> Setting:
    from .. import units
    from ..synth import Setting

    if options["request_rate"] and options["concurrency"]:
        raise UsageError(
            "--request-rate and --concurrency exclude each other", "", "cap an open loop with --cap"
        )
    if options["cap"] and not options["request_rate"]:
        raise UsageError("--cap is of an open loop", "", "name its --request-rate, or use --concurrency")
    rate = _quantity(options, "request_rate", units.RATE) if options["request_rate"] else None
    if rate == 0:
        raise UsageError("--request-rate 0/s sends nothing", "", "give a rate above 0")
    return Setting(
        options["requests"],
        options["seed"],
        None if rate else options["concurrency"] or 32,
        rate,
        options["cap"],
        _law(options, "input_tokens"),
        _law(options, "output_tokens"),
        _share(options, "failures"),
        _share(options, "spikes"),
        _quantity(options, "spike", units.SECONDS),
        options["chunked_prefill"],
        _quantity(options, "slower", units.SHARE),
    )


def _quantity(options: dict[str, Any], name: str, unit: str) -> float:
    return quantity(options[name], unit, f"--{name.replace('_', '-')}")


def _share(options: dict[str, Any], name: str) -> float:
    from ..units import SHARE

    value = _quantity(options, name, SHARE)
    if value > 1:
        raise UsageError(f"{options[name]} is more than all requests", f"--{name}", "give at most 100%")
    return value


def _law(options: dict[str, Any], name: str) -> tuple[float, float]:
    """Mean and stddev of a number of tokens; without a stddev all are alike."""
    mean, _, spread = str(options[name]).partition(":")
    try:
        law = float(mean), float(spread or 0)
    except ValueError:
        law = 0.0, 0.0
    if not (1 <= law[0] <= 1e6 and 0 <= law[1] <= 1e6):
        where = f"--{name.replace('_', '-')}"
        raise UsageError(
            f'"{options[name]}" is no length in tokens', where, "write a mean from 1 on, like 800:300"
        )
    return law
