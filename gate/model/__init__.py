"""Every noun of slo-gate, frozen: what readers give, what a policy asks, what a report says.

Seconds, tokens and shares throughout; the unit is in the name. Verbs live elsewhere.
A noun that stands in one of these modules is public.
"""
# ruff: noqa: F403

from gate.model.charts import *
from gate.model.doubts import *
from gate.model.history import *
from gate.model.judged import *
from gate.model.policy import *
from gate.model.report import *
from gate.model.run import *
from gate.model.trend import *
