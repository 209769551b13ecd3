"""The command of each tool, as the body of a shell function `bench`.

Its arguments are $load $requests $seed $out $url. Lengths and facts of the policy are written in; what
is not plain text there is not, and has to be set by the caller (see _script).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ._plan import Lengths, Plan


def client(tool: str, plan: Plan) -> tuple[str, tuple[str, ...]]:
    """The body of `bench` for a tool, and what the reader should know about its lengths."""
    return _CLIENTS[tool](plan)


def _round(value: float) -> str:
    return str(max(1, round(value)))


def _spread(plan: Plan, kept: Lengths, given: Lengths, what: str) -> tuple[str, ...]:
    """A note where a tool cannot shape the second length as it shapes the first."""
    if abs(kept.stddev - given.stddev) <= max(0.1 * given.stddev, 1):
        return ()
    return (
        f"this tool has one spread for input and output: outputs get a stddev of {kept.stddev:.0f} tokens,"
        f" not {given.stddev:g}{what}",
    )


# ---- vLLM and SGLang: uniform lengths, one ratio for input and output ------------------------


def uniform_ratio(lengths: Lengths) -> float:
    """r of a uniform length on mean x [1 - r, 1 + r], whose stddev is r x mean / sqrt(3). Below 1."""
    return min(0.95, math.sqrt(3) * lengths.stddev / lengths.mean)


def _vllm(plan: Plan) -> tuple[str, tuple[str, ...]]:
    ratio = round(uniform_ratio(plan.input_tokens), 2)
    outputs = plan.output_tokens
    got = Lengths(outputs.mean, ratio * outputs.mean / math.sqrt(3))
    load = '--request-rate "$load"' if plan.open_loop else '--max-concurrency "$load"'
    body = f"""\
vllm bench serve --backend openai-chat --endpoint /v1/chat/completions \\
  --base-url "$url" --model "$MODEL" \\
  --dataset-name random --random-input-len {_round(plan.input_tokens.mean)} \\
  --random-output-len {_round(outputs.mean)} --random-range-ratio {ratio:g} --ignore-eos \\
  --num-prompts "$requests" --seed "$seed" {load} \\
  --save-result --save-detailed \\
  --result-dir "$(dirname "$out")" --result-filename "$(basename "$out").json" \\
  --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,99 --disable-tqdm \\
  --metadata ${{HARDWARE:+"gpu=$HARDWARE"}} "vllm_version=$VERSION"
"""
    shape = (f"lengths are uniform on mean x [1 - {ratio:g}, 1 + {ratio:g}]",)
    return body, shape + _spread(plan, got, outputs, "")


def _sglang(plan: Plan) -> tuple[str, tuple[str, ...]]:
    # Lengths are uniform on [full x r, full]: full and r follow from mean and stddev of the input.
    inputs, outputs = plan.input_tokens, plan.output_tokens
    half = uniform_ratio(inputs)
    ratio = round((1 - half) / (1 + half), 2)
    full_in, full_out = (2 * lengths.mean / (1 + ratio) for lengths in (inputs, outputs))
    got = Lengths(outputs.mean, full_out * (1 - ratio) / math.sqrt(12))
    load = '--request-rate "$load"' if plan.open_loop else '--max-concurrency "$load"'
    body = f"""\
python -m sglang.benchmark.serving --backend sglang-oai-chat --base-url "$url" --model "$MODEL" \\
  --dataset-name random-ids --random-input-len {_round(full_in)} --random-output-len {_round(full_out)} \\
  --random-range-ratio {ratio:g} --num-prompts "$requests" --seed "$seed" {load} \\
  --extra-request-body '{{"stream_options":{{"include_usage":true}}}}' \\
  --output-file "$out.jsonl" --output-details --disable-tqdm
"""
    shape = (f"lengths are uniform on [{ratio:g}, 1] x the length on the command line",)
    return body, shape + _spread(plan, got, outputs, "")


# ---- tools that take mean and stddev ----------------------------------------------------------


def _aiperf(plan: Plan) -> tuple[str, tuple[str, ...]]:
    inputs, outputs = plan.input_tokens, plan.output_tokens
    load = '--request-rate "$load"' if plan.open_loop else '--concurrency "$load"'
    return (
        f"""\
aiperf profile -m "$MODEL" --url "$url" --endpoint-type chat --streaming \\
  --tokenizer "$TOKENIZER" {load} --request-count "$requests" \\
  --isl {_round(inputs.mean)} --isl-stddev {_round(inputs.stddev)} \\
  --osl {_round(outputs.mean)} --osl-stddev {_round(outputs.stddev)} \\
  --random-seed "$seed" --ui-type none --artifact-dir "$out"
""",
        (),
    )


def _genai_perf(plan: Plan) -> tuple[str, tuple[str, ...]]:
    inputs, outputs = plan.input_tokens, plan.output_tokens
    load = '--request-rate "$load"' if plan.open_loop else '--concurrency "$load"'
    return (
        f"""\
genai-perf profile -m "$MODEL" --url "$url" --endpoint-type chat --streaming \\
  --tokenizer "$TOKENIZER" {load} --request-count "$requests" --num-prompts "$requests" \\
  --isl {_round(inputs.mean)} --synthetic-input-tokens-stddev {_round(inputs.stddev)} \\
  --osl {_round(outputs.mean)} --output-tokens-stddev {_round(outputs.stddev)} \\
  --random-seed "$seed" --artifact-dir "$out"
""",
        (),
    )


def _llmperf(plan: Plan) -> tuple[str, tuple[str, ...]]:
    inputs, outputs = plan.input_tokens, plan.output_tokens
    return (
        f"""\
# LLMPerf calls random.seed(11111) itself: each run is given its own seed instead, equal on both sides.
OPENAI_API_BASE="$url/v1" OPENAI_API_KEY="${{OPENAI_API_KEY:-none}}" python - "$seed" \\
  --model "$MODEL" --llm-api openai --timeout 3600 --results-dir "$out" \\
  --num-concurrent-requests "$load" --max-num-completed-requests "$requests" \\
  --mean-input-tokens {_round(inputs.mean)} --stddev-input-tokens {_round(inputs.stddev)} \\
  --mean-output-tokens {_round(outputs.mean)} --stddev-output-tokens {_round(outputs.stddev)} \\
  --metadata "${{HARDWARE:+hardware=$HARDWARE,}}tool_version=$VERSION" <<'PYTHON'
import random, runpy, sys
own, seed = random.seed, int(sys.argv.pop(1))
random.seed = lambda *_: own(seed)
runpy.run_path("llmperf/token_benchmark_ray.py", run_name="__main__")
PYTHON
""",
        (),
    )


def _guidellm(plan: Plan) -> tuple[str, tuple[str, ...]]:
    inputs, outputs = plan.input_tokens, plan.output_tokens
    data = (
        f"prompt_tokens={_round(inputs.mean)},prompt_tokens_stdev={_round(inputs.stddev)}"
        f",output_tokens={_round(outputs.mean)},output_tokens_stdev={_round(outputs.stddev)}"
    )
    profile = 'kind=poisson,rate="$load"' if plan.open_loop else 'kind=concurrent,streams="$load"'
    return (
        f"""\
guidellm run --backend kind=openai_http,target="$url",model="$MODEL",request_format=/v1/chat/completions \\
  --profile {profile} --constraint kind=max_requests,count="$requests" \\
  --tokenizer kind=huggingface_auto,model="$TOKENIZER" \\
  --data kind=synthetic_text,{data} \\
  --seed kind=static,value="$seed" --output kind=json,path="$out.json" --disable-console-interactive
""",
        (),
    )


# ---- tools that take a configuration file -----------------------------------------------------


def _inference_perf(plan: Plan) -> tuple[str, tuple[str, ...]]:
    # A stage of an open loop has a rate and whole seconds, one of a closed loop a number of requests.
    stage = (
        "{rate: $load, duration: $(python3 -c 'import math, sys; print(math.ceil(int(sys.argv[1]) /"
        ' float(sys.argv[2])))\' "$requests" "$load")}'
        if plan.open_loop
        else "{num_requests: $requests, concurrency_level: $load}"
    )
    kind = "poisson" if plan.open_loop else "concurrent"
    return (
        f"""\
cat >"$CONFIG" <<YAML
api: {{type: completion, streaming: true}}
server: {{type: vllm, model_name: "$MODEL", base_url: "$url", ignore_eos: true}}
tokenizer: {{pretrained_model_name_or_path: "$TOKENIZER"}}
data:
  type: random
  input_distribution: {_distribution(plan.input_tokens)}
  output_distribution: {_distribution(plan.output_tokens)}
load: {{type: {kind}, base_seed: $seed, stages: [{stage}]}}
storage: {{local_storage: {{path: "$out"}}}}
report:
  request_lifecycle:
    {{summary: true, per_stage: true, per_request: true, per_request_fields: {{computed_metrics: true}}}}
YAML
inference-perf -c "$CONFIG"
""",
        ("random prompts are sent to /v1/completions",),
    )


def _distribution(lengths: Lengths) -> str:
    low = max(1, round(lengths.mean - 3 * lengths.stddev))
    high = round(lengths.mean + 3 * lengths.stddev)
    mean, spread = _round(lengths.mean), _round(lengths.stddev)
    return f"{{min: {low}, max: {max(high, low)}, mean: {mean}, std_dev: {spread}, type: normal}}"


def _mlperf(plan: Plan) -> tuple[str, tuple[str, ...]]:
    pattern = (
        "{type: poisson, target_qps: $load}"
        if plan.open_loop
        else "{type: concurrency, target_concurrency: $load}"
    )
    return (
        f"""\
cat >"$CONFIG" <<YAML
name: slo-gate
version: "1.0"
type: online
model_params: {{name: "$MODEL", streaming: "on", max_new_tokens: {_round(2 * plan.output_tokens.mean)}}}
datasets:
  - {{name: perf, type: performance, path: "$DATASET"}}
settings:
  runtime: {{n_samples_to_issue: $requests, scheduler_random_seed: $seed, dataloader_random_seed: $seed}}
  load_pattern: {pattern}
endpoint_config: {{endpoints: ["$url"], api_type: openai}}
report_dir: "$out"
YAML
inference-endpoint benchmark from-config --config "$CONFIG"
""",
        (
            "a LoadGen submission sets *.Server.target_qps in its user.conf instead; its logs are read too"
            " (accuracy_log_probability = 1 gives the token counts that TPOT needs)",
        ),
    )


_CLIENTS: dict[str, Callable[[Plan], tuple[str, tuple[str, ...]]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "aiperf": _aiperf,
    "genai-perf": _genai_perf,
    "llmperf": _llmperf,
    "guidellm": _guidellm,
    "inference-perf": _inference_perf,
    "mlperf": _mlperf,
}
