"""The benchmark tools a recipe can be written for: what each is, and what its words mean.

Versions are those whose result files and commands were recorded when the readers were built; where a
definition differs from ours, docs/definitions.md has ours.
"""

from __future__ import annotations

from msgspec import Struct


class Tool(Struct, frozen=True):
    """One benchmark tool, for people."""

    name: str
    title: str
    version: str
    install: str  # a shell command
    why: str
    definition: str  # its TPOT and ITL
    differs: str  # from ours
    writes: frozenset[str]  # facts its files hold; the others are stated with --set
    traps: tuple[str, ...] = ()
    open_loop: bool = True


_OURS = "TPOT = (E2E - TTFT) / (output tokens - 1), one value a request"

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            name="vllm",
            title="vLLM bench serve",
            version="0.33.0",
            install="pip install vllm==0.33.0",
            why="it drives any OpenAI-compatible server, open or closed loop, and with --save-detailed"
            " writes one"
            " row a request with its start, TTFT, gaps, E2E, tokens and error: everything the gate can judge",
            definition=f"{_OURS}; ITL is the gap between chunks, not tokens",
            differs="TPOT is ours; its goodput counts completed requests only and takes the TPOT of a"
            " one-token"
            " answer as 0, so the gate counts goodput itself",
            writes=frozenset({"model", "tool_version", "hardware"}),
            traps=(
                "without --save-detailed there are no rows, and joint goodput is known only by its bounds",
                "an error inside a 200 stream is a success to it",
                "input lengths are the server's, with the chat template: some tokens more than were"
                " asked for",
            ),
        ),
        Tool(
            name="sglang",
            title="SGLang bench_serving",
            version="0.5.23",
            install="pip install sglang==0.5.23",
            why="it is the native client of SGLang, and with --output-details writes one row a request",
            definition=f"{_OURS}; ITL is the gap between chunks",
            differs="TPOT is ours where the stream carries usage; without it the output length is the"
            " one that was"
            " requested, so the recipe asks for usage",
            writes=frozenset({"model"}),
            traps=(
                "every run appends to its file: the recipe gives each run its own",
                "an aborted request keeps the TTFT it had",
            ),
        ),
        Tool(
            name="aiperf",
            title="NVIDIA AIPerf",
            version="0.13.0",
            install="pip install aiperf==0.13.0",
            why="it is built for load: own processes send, so that the client does not become the"
            " bottleneck, and"
            " profile_export.jsonl has one record a request, failures and warm-up among them",
            definition="inter_token_latency = (E2E - TTFT) / (output tokens - 1), one value a request;"
            " inter_chunk_latency is the gap between chunks",
            differs="what it calls ITL we call TPOT; its goodput is a rate, good_request_fraction the share",
            writes=frozenset({"model", "tool_version"}),
            traps=("tokens are counted by the client's tokenizer: it must be the model's",),
        ),
        Tool(
            name="genai-perf",
            title="NVIDIA GenAI-Perf",
            version="0.0.16",
            install="pip install genai-perf==0.0.16",
            why="it is what Triton teams have; new work is better off with its successor AIPerf",
            definition="inter_token_latency = (E2E - TTFT) / (output tokens - 1)",
            differs="what it calls ITL we call TPOT; goodput pairs metrics by position and goes out of"
            " step when an"
            " answer has one token",
            writes=frozenset({"model"}),
            traps=(
                "one failed request ends the run without a file: its error rate is 0 by construction,"
                " so a green"
                " error_rate says little",
                "no token counts are stored: TPOT is judged where the summary proves one token a chunk",
            ),
        ),
        Tool(
            name="llmperf",
            title="LLMPerf",
            version="f1d6bed",
            install="git clone https://github.com/ray-project/llmperf && git -C llmperf checkout f1d6bed"
            " && pip install ./llmperf",
            why="it is widely quoted, so that published numbers can be repeated; for a gate others are safer",
            definition="inter_token_latency_s = E2E / output tokens: it CONTAINS the TTFT",
            differs="it is not TPOT: 500 ms of TTFT and 700 ms of decode for 100 tokens are 12.00 ms to"
            " LLMPerf and"
            " 7.07 ms as TPOT; the gate derives TPOT from its E2E, TTFT and tokens",
            writes=frozenset({"model", "tool_version", "hardware"}),
            traps=(
                "a failed request kills its worker thread and leaves no row: compare the rows with"
                " those asked for",
                "it seeds its prompts with one fixed number, so that every run would repeat the same"
                " ones; the"
                " recipe seeds each run by itself",
                "its output lengths are a request, not a command: a model that stops early changes them",
            ),
            open_loop=False,
        ),
        Tool(
            name="guidellm",
            title="GuideLLM",
            version="0.8.1",
            install="pip install guidellm==0.8.1",
            why="it knows open and closed loops, shapes lengths with mean and spread, and writes every"
            " request with"
            " the server's token counts",
            definition="inter_token_latency_ms = (last - first token) / (output tokens - 1), the usual TPOT;"
            " time_per_output_token_ms CONTAINS the TTFT",
            differs="what it calls ITL we call TPOT, and what it calls TPOT we do not use; its SLO"
            " attainment leaves"
            " undetermined requests out",
            writes=frozenset({"model", "tool_version"}),
            traps=(
                "requests cut off at the end are listed as incomplete: the gate counts them as cancelled",
            ),
        ),
        Tool(
            name="inference-perf",
            title="inference-perf",
            version="0.7.0",
            install="pip install inference-perf==0.7.0",
            why="it runs where the server runs, in Kubernetes, from one configuration file",
            definition="time_per_output_token = (last - first token) / (output tokens - 1);"
            " inter_token_latency is"
            " every token's gap, zeros inside a chunk included",
            differs="TPOT is ours up to the client's own tokenising, which its E2E contains; normalised TPOT"
            " contains the TTFT; its goodput is a share of successes, thresholds in seconds",
            writes=frozenset({"model"}),
            traps=(
                "per_request is off by default: the recipe switches it on",
                "a one-token answer has no TTFT of its own: the gate rebuilds it",
            ),
        ),
        Tool(
            name="mlperf",
            title="MLPerf Endpoints",
            version="0.1.0",
            install="pip install git+https://github.com/mlcommons/endpoints@ea332753",
            why="it is MLCommons' own client for HTTP endpoints: use it to compare with published"
            " MLPerf results",
            definition="tpot = (end - first chunk) / tokens after the first chunk, by the client's tokenizer",
            differs="it divides by the tokens after the first chunk, not by tokens - 1: equal only"
            " where the first"
            " chunk is one token; percentiles are numpy 'lower'; MLPerf knows no goodput",
            writes=frozenset({"model", "tool_version"}),
            traps=(
                "its events hold no token counts: TPOT, and goodput with a TPOT bound, stay inconclusive on"
                " them; pass performance/result_summary.json alone to judge P99 TPOT",
                "lengths come from the data set, not from flags: it must be the one the policy declares",
                "passing the gate is no MLPerf result",
            ),
        ),
    )
}
