"""The grammar of a policy, one table a mapping: its keys, their values and defaults, and what they mean.

The loader reads by these tables; schema.py writes them as schemas/policy.schema.json, where editors show the
sentences. What spans several keys is in _rules.py, what a profile may change in _profiles.py.
"""

from __future__ import annotations

from .. import units
from ..model import METRICS, REQUEST_METRICS, Level
from . import _grammar as grammar
from ._types import Choice, Key, Many, Shape, Type, count, fixed, language, must, number, quantity, text, word

# ---- values -------------------------------------------------------------------------------

_ABOVE_0 = r"(?=.*[1-9])(0|[1-9][0-9]*)(\.[0-9]+)?"  # no unit has a digit: the one above 0 is in the number
_TO_100 = r"(100(\.0+)?|[1-9]?[0-9](\.[0-9]+)?)"
_CONFIDENCE = r"([5-8][0-9](\.[0-9]+)?|9[0-8](\.[0-9]+)?|99(\.([0-8][0-9]*|9([0-8][0-9]*|90*)?))?)"
TIME = quantity(units.SECONDS, _ABOVE_0, "(us|µs|ms|s|min)", "a time above 0 in us, ms, s or min", "800 ms")
PERCENT = quantity(units.SHARE, _ABOVE_0, "%", "a percentage above 0%", "150%")
SHARE = quantity(units.SHARE, rf"(?=.*[1-9]){_TO_100}", "%", "a percentage above 0% and up to 100%", "99%")
ERRORS = quantity(units.SHARE, r"[1-9]?[0-9](\.[0-9]+)?", "%", "a percentage from 0% to below 100%", "1%")
CONFIDENCE = quantity(units.SHARE, _CONFIDENCE, "%", "a confidence from 50% to 99.99%", "95%")
POINTS = quantity(units.POINTS, _TO_100, "pt", "percentage points from 0pt to 100pt", "5pt")
RATE = quantity(units.RATE, _ABOVE_0, "(req)?/s", "a rate above 0 in requests a second", "20/s")
TOKEN_RATE = quantity(units.TOKEN_RATE, _ABOVE_0, "tok/s", "output tokens a second, above 0", "2000 tok/s")
COUNT = count(1)
TEXT = text(500)
SHORT_TEXT = text(200)
WHEN = language(grammar.when, maxLength=grammar.MAX_WHEN, pattern=grammar.WHEN)
DAY = language(grammar.day, format="date", pattern=grammar.DAY)
_LEVELS = word(*(level.value for level in Level))
LEVEL = Key(_LEVELS, "block fails the gate, warn shows a warning, info is only shown.", Level.BLOCK.value)


def _stated(value: Type) -> Shape:
    """The value, or {is: value, level: ...}."""
    return Shape({"is": must(value), "level": LEVEL}, about="The value with a level.", short="is")


# ---- what users get -----------------------------------------------------------------------

_WHEN = "Requests it is about: input_tokens or output_tokens, < <= > >=, a whole number; joined by `and`."
_MEAN = "a mean is shown and never judged: it hides the tail"


def _bounds(about: str, **level: Key) -> Many:
    maximum = must(TIME, "The bound: a request within it meets the objective.")
    bound = Shape({"max": maximum, "when": Key(WHEN, _WHEN), **level}, about=about, short="max")
    return Many(bound, "list 1 to 20 bounds", most=20, single=True)


BOUNDS = _bounds("A time limit, the requests it is about, and its level.", level=LEVEL)
_ONLY_INFO = word("info", because=f"; {_MEAN}", hint="write `level: info`, and gate on p99")
MEAN_BOUNDS = _bounds(
    "A figure to compare a mean with.", level=Key(_ONLY_INFO, f"{_MEAN.capitalize()}.", "info")
)
REQUEST_BOUNDS = _bounds("A time limit of one request, and the requests it is about.")
METRIC = Shape(
    about="Statistic to bound: p and a number between 0 and 100, or mean.",
    percentile=Key(BOUNDS, "At least this percentage of attempted requests must be within the bound."),
    mean=Key(MEAN_BOUNDS, "Shown and never judged; needs a p99 of the same metric beside it."),
)
_METRICS = {
    "ttft": "Time to first token.",
    "tpot": "Decode time per output token after the first, one value a request.",
    "itl": "Gap between two streamed chunks, pooled over requests.",
    "e2e": "Send to last token.",
}
SLO = Shape({name: Key(METRIC, _METRICS[name]) for name in METRICS})
_ITL = "itl cannot be a bound of goodput: a request has many gaps and goodput counts requests"
REQUEST = Shape(
    {name: Key(REQUEST_BOUNDS, _METRICS[name]) for name in REQUEST_METRICS},
    noun="metric",
    refused={"itl": (_ITL, "bound tpot instead")},
)
GOODPUT = Shape(
    min=must(SHARE, "Goodput that must be reached."),
    request=Key(
        REQUEST, "Per-request bounds. Default: of each metric in slo its highest blocking percentile."
    ),
    level=LEVEL,
)
ERROR_RATE = Shape(max=must(ERRORS, "Largest share that may fail."), level=LEVEL)
HEADROOM = Shape(
    {
        "max_drop": must(POINTS, "Largest drop in percentage points."),
        "from": Key(PERCENT, "Lower load, as a share of the target.", "100%"),
    },
    to=must(PERCENT, "Higher load, as a share of the target."),
    level=LEVEL,
)
THROUGHPUT = Shape(min=must(TOKEN_RATE, "Throughput that must be reached."), level=LEVEL)
LIMITS = Shape(
    error_rate=Key(ERROR_RATE, "Failed of attempted requests, judged on the observed share."),
    headroom=Key(HEADROOM, "How much goodput may drop from one load to a higher one; both must be measured."),
    throughput=Key(THROUGHPUT, "Output tokens of completed requests a second; beside goodput, never alone."),
)
GROWTH = Shape(
    max=must(PERCENT, "Growth that is still fine, relative to the baseline."),
    and_at_least=Key(TIME, "Growth below this time is fine whatever its percentage."),
    level=LEVEL,
)
GROWTH_METRIC = Shape(percentile=Key(GROWTH, "How much a percentile may grow against the baseline."))
_REQUIRED = fixed((True, False), "true or false", "true: a missing baseline blocks")
REGRESSION = Shape(
    {name: Key(GROWTH_METRIC, "Growth by percentile.") for name in METRICS},
    choice=Choice(METRICS, "compares no metric", f"add one of {', '.join(METRICS)}"),
    required=Key(_REQUIRED, "true: a missing baseline blocks.", False),
)

# ---- under which conditions ---------------------------------------------------------------

LOADS = ("concurrency", "request_rate", "peak", "production")
_LOADS = ", ".join(LOADS)
_SWEEP = "be a list of 1 to 20 percentages of the load"
LOAD = Shape(
    choice=Choice(LOADS, "names no load", f"write exactly one of {_LOADS}", exactly=True),
    concurrency=Key(COUNT, "Closed loop: requests in flight."),
    request_rate=Key(RATE, "Open loop: requests a second."),
    peak=Key(COUNT, "Expected peak concurrency; the target is twice this."),
    production=Key(
        Shape(min=must(RATE, "Finished requests a second, at least.")),
        "Real traffic, scraped from the servers: at least this much of it.",
    ),
    sweep=Key(
        Many(PERCENT, _SWEEP, most=20, hint="write it like [50%, 100%, 150%]"),
        "Shares of the load that must have been measured too.",
    ),
    level=LEVEL,
)
_TOKENS = {
    "mean": must(number(zero=False), "Mean tokens a request."),
    "stddev": Key(number(zero=True), "Spread of the token lengths."),
    "tolerance": Key(SHARE, "How far the measured mean may be off.", "10%"),
    "level": LEVEL,
}
INTERACTION = word("streaming-chat", "one-shot", "voice", "agent", "code-completion", "batch")
WORKLOAD = Shape(
    model=Key(_stated(SHORT_TEXT), "Glob that the model of every run must match."),
    hardware=Key(_stated(SHORT_TEXT), "Hardware of every run, as the file or `--set hardware=` states it."),
    interaction=Key(_stated(INTERACTION), "How people use the deployment."),
    load=Key(LOAD, f"Where objectives are judged: exactly one of {_LOADS}."),
    input_tokens=Key(Shape(_TOKENS), "What requests were promised to hold, checked against the files."),
    output_tokens=Key(
        Shape(_TOKENS, word="none"),
        "What answers were promised to hold; none: the endpoint makes no tokens (embeddings, rerank).",
    ),
)
_LEAST = Shape(min=must(COUNT), level=LEVEL)
TOOL = Shape(
    choice=Choice(("name", "version"), "asks for nothing", "add `name:` or `version: required`"),
    name=Key(SHORT_TEXT, "The benchmark tool that must have been used, as slo-gate names it."),
    version=Key(word("required"), "`required`: the file must state the tool's version."),
    level=LEVEL,
)
_PROMPTS = "`varied`: the same prompt in a loop is not evidence; told by prompt texts, else by input lengths."
_WARMUP = "Requests dropped from the start of each run; auto drops start-up and ramp-down."
_RUN_SPREAD = (
    "Below five runs: pass at the bound / (1 + this), fail at the bound x (1 + this); 0% trusts one run."
)
_ATTEMPTED = "The gateway counter of answers: engines do not count what was rejected before them."
_IGNORE = (
    "Files that are left out of results and baselines, by name or glob; as --ignore, and shown as it is."
)
_LIKE = "write it like [meta*.json]"
EVIDENCE = Shape(
    confidence=Key(CONFIDENCE, "How sure a verdict must be.", "95%"),
    decide=Key(word("confident", "point"), "By intervals, or (point) by the naked estimate.", "confident"),
    run_spread=Key(ERRORS, _RUN_SPREAD, "5%"),
    runs=Key(_LEAST, "Fewest runs at the target load."),
    requests_per_run=Key(_LEAST, "Fewest requests a run, after warm-up."),
    tool=Key(TOOL, "The benchmark tool."),
    prompts=Key(_stated(word("varied")), _PROMPTS),
    warmup=Key(count(0, "auto"), _WARMUP, 0),
    attempted=Key(SHORT_TEXT, _ATTEMPTED),
    ignore=Key(Many(SHORT_TEXT, "be a list of 1 to 20 patterns", most=20, hint=_LIKE), _IGNORE),
)

# ---- the rest -----------------------------------------------------------------------------

_STORE = "Where sessions are remembered: a folder, git:BRANCH, or a URL such as s3://bucket/path."
_LAST = "At most so many sessions are compared with, the newest."
HISTORY = Shape(
    store=must(TEXT, _STORE),
    base_branch=Key(SHORT_TEXT, "Branch whose sessions are the baseline.", "main"),
    last=Key(COUNT, _LAST, 30),
)
_CANCELLED = "Requests the tool cut off at the end of its run: left out, or a miss."
_SINGLE_TOKEN = "TPOT of answers with one token: left out, or a miss."
SEMANTICS = Shape(
    cancelled=Key(word("exclude", "miss"), _CANCELLED, "exclude"),
    single_token_tpot=Key(word("ignore", "miss"), _SINGLE_TOKEN, "ignore"),
)
WAIVER = Shape(
    about="One objective that may fail until a day.",
    objective=must(TEXT, "Id of the objective, such as tpot.p99."),
    until=must(DAY, "Last day of the waiver."),
    owner=must(TEXT, "Who answers for it."),
    reason=must(TEXT, "Why it may fail for now."),
)
PROFILES = Shape()  # _profiles.py reads it, schema.py derives it
_DEFAULT_PROFILE = "Profile that judges where no --profile is given; `--profile none` is the policy alone."
_UNDECIDED = "What good but too little data does: block, lean (block when the observed value misses), allow."
TOP = Shape(
    version=must(fixed((1,), "1", "this slo-gate reads version 1"), "Version of the policy format."),
    name=Key(text(100), "Shown in every output. Default: the file name without its ending."),
    undecided=Key(word("block", "lean", "allow"), _UNDECIDED, "block"),
    workload=Key(WORKLOAD, "The benchmark that was promised: a PR must not pass by running an easier one."),
    slo=Key(SLO, "Bounds by metric and statistic."),
    goodput=Key(GOODPUT, "The share of attempted requests that meet every per-request bound at once."),
    limits=Key(LIMITS, "Limits that are no latency."),
    regression=Key(REGRESSION, "Growth of a percentile against a baseline; skipped without one."),
    history=Key(HISTORY, "Remembered sessions, which `check` compares with; a baseline of `regression`."),
    evidence=Key(EVIDENCE, "How certain a verdict must be, and what the evidence must hold."),
    semantics=Key(SEMANTICS, "How unusual requests count."),
    waivers=Key(Many(WAIVER, "be a list"), "Blocking failures somebody has signed for, until a day."),
    default_profile=Key(language(grammar.profile, maxLength=50, pattern=grammar.PROFILE), _DEFAULT_PROFILE),
    profiles=Key(PROFILES, "Variants for --profile NAME."),
)
