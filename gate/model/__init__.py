"""Every noun of slo-gate, frozen: what readers give, what a policy asks, what a report says.

Seconds, tokens and shares throughout; the unit is in the name. Verbs live elsewhere.
"""

from gate.model.charts import (
    Charts as Charts,
    Curve as Curve,
    CurveBound as CurveBound,
    Dot as Dot,
    Failed as Failed,
    LoadPoint as LoadPoint,
    MissSet as MissSet,
    Scatter as Scatter,
    Window as Window,
)
from gate.model.doubts import Doubt as Doubt, Why as Why
from gate.model.judged import (
    Attribution as Attribution,
    Capacity as Capacity,
    Change as Change,
    Check as Check,
    Comparison as Comparison,
    Goodput as Goodput,
    Grid as Grid,
    InputFile as InputFile,
    LengthBucket as LengthBucket,
    LoadReport as LoadReport,
    MetricStats as MetricStats,
    Misses as Misses,
    Move as Move,
    MovedObjective as MovedObjective,
    MovedPoint as MovedPoint,
    Needed as Needed,
    Percentiles as Percentiles,
    RunReport as RunReport,
    TtftParts as TtftParts,
    Verdict as Verdict,
    WhatIf as WhatIf,
    WorstRequest as WorstRequest,
    WorstRun as WorstRun,
)
from gate.model.policy import (
    Condition as Condition,
    EvidenceRules as EvidenceRules,
    Kind as Kind,
    Level as Level,
    Objective as Objective,
    Policy as Policy,
    RequestBound as RequestBound,
    TokenRule as TokenRule,
    Waiver as Waiver,
    When as When,
    Workload as Workload,
)
from gate.model.report import (
    AnyReport as AnyReport,
    ErrorReport as ErrorReport,
    Inspection as Inspection,
    PolicyName as PolicyName,
    Provenance as Provenance,
    Report as Report,
)
from gate.model.run import (
    METRICS as METRICS,
    REQUEST_METRICS as REQUEST_METRICS,
    SAVED_REPORT as SAVED_REPORT,
    Aggregate as Aggregate,
    Baseline as Baseline,
    Bools as Bools,
    Buckets as Buckets,
    Counts as Counts,
    Evidence as Evidence,
    Floats as Floats,
    Gaps as Gaps,
    Histogram as Histogram,
    Load as Load,
    Requests as Requests,
    Run as Run,
    Status as Status,
    Summary as Summary,
    ToolReported as ToolReported,
)
