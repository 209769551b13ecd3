"""`slo-gate recipe`: the benchmark that a policy asks for, as commands and CI files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit, UsageError
from ._lines import show, tell
from ._shared import chosen_policy, columns, named_here, policy_options, save

if TYPE_CHECKING:
    from ..recipe import Recipe

TOOLS = (
    "vllm",
    "sglang",
    "aiperf",
    "genai-perf",
    "llmperf",
    "guidellm",
    "inference-perf",
    "mlperf",
    "evalscope",
    "trtllm",
)
_OTHERS = ("genai-bench", "llmeter", "llm-load-test", "lmbenchmark")  # answered with why there is no recipe


@click.command(name="recipe")
@policy_options
@click.option(
    "--for",
    "tool",
    type=click.Choice((*TOOLS, *_OTHERS, "")),
    is_flag=False,
    flag_value="",
    required=True,
    metavar="CLIENT",
    help=f"The client: {', '.join(TOOLS)}. Without a name: which client proves which rule.",
)
@click.option("--ci", type=click.Choice(("github", "gitlab", "jenkins")), help="Also write its CI file.")
@click.option(
    "--peak",
    type=click.IntRange(1),
    metavar="N",
    help="Expected peak concurrency, if the policy has no load.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(("text", "markdown")),
    default="text",
    show_default=True,
    help="On stdout: the files themselves, or one page that explains them.",
)
@click.option(
    "-o",
    "--output",
    type=named_here,
    metavar="FOLDER",
    help="Write bench.sh, the CI file and RECIPE.md there instead.",
)
@click.option("--force", is_flag=True, help="Overwrite files in FOLDER.")
def command(**options: Any) -> int:
    """Print how to benchmark what a policy promises: commands, sweep, seeds, runs, and the gate."""
    from ..emit.format import plain
    from ..evaluate import describe
    from ..recipe import OTHERS, markdown, recipe

    if not options["tool"]:
        click.echo(_proofs(), nl=False)
        return Exit.PASS
    if why := OTHERS.get(options["tool"]):
        hint = "its results are judged all the same: slo-gate check; `slo-gate recipe --for` shows the others"
        raise UsageError(f"no recipe is written for {options['tool']}: {why}", "--for", hint)
    policy = chosen_policy(options)
    found = recipe(policy, options["tool"], ci=options["ci"], peak=options["peak"])
    for name, why in found.never:
        tell(f"never passes: {name}: {plain(why)}")
    for name, why in found.unproven:
        tell(f"left out of the gate: {name}: {plain(why)}")
    page = markdown(found, [(one, describe(one)) for one in policy.objectives])
    if options["output"]:
        _write(Path(options["output"]), [*found.files, ("RECIPE.md", page)], force=options["force"])
    else:
        click.echo(page if options["format_"] == "markdown" else _text(found), nl=False)
    return Exit.PASS


def _proofs() -> str:
    """Which client proves which rule, and why there is none for the other tools."""
    from ..emit.layout import prose
    from ..recipe import OTHERS, proofs

    head, *rows = proofs()
    sizes = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    legend = (
        "Which rules their files prove: open loops, latencies, error_rate, and of the workload input_tokens, "
        "output_tokens and prompts. bench.sh writes model, version and hardware beside the results."
    )
    lines += ["", *prose(legend, columns(), "", 0)]
    for name, why in OTHERS.items():
        lines += prose(f"no recipe for {name}: {why}", columns(), "", 2)
    return "\n".join(lines) + "\n"


def _text(found: Recipe) -> str:
    """The script alone, so that it can be piped; several files each under their name."""
    if len(found.files) == 1:
        return found.files[0][1]
    return "\n".join(f"# ---- {name} ----\n{text}" for name, text in found.files)


def _write(folder: Path, files: list[tuple[str, str]], *, force: bool) -> None:
    there = [name for name, _ in files if (folder / name).exists()]
    if there and not force:
        raise UsageError(f"is there already: {', '.join(there)}", str(folder), "add --force to overwrite")
    for name, text in files:
        save(folder / name, text.encode(), "name a folder that can be written")
        show(f"wrote {folder / name}")
