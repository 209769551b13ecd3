"""Prometheus: text or OpenMetrics scrapes of an engine, or the JSON answer of a range query.

Two scrapes are a window, a series of scrapes a window a pair: one Run each, so that the windows of a
canary are its clusters. One scrape alone is one window since the server started.
"""

from __future__ import annotations

import re

from ..source import Source

NAME = "prometheus"
TITLE = "Prometheus metrics"
_TYPE = r"(?m)^# TYPE (?:\S+|\"[^\"]+\") (?:counter|gauge|histogram|summary|untyped|unknown|info)\s*$"
_BUCKET = r"(?m)^[^\s{}\"#]+_bucket\{[^\n]*\ble=\""


def sniff(source: Source, /) -> bool:
    """Whether it is an exposition or an answer of Prometheus' query API."""
    if source.shape == "object":
        return {"status", "data"} <= source.keys and '"resultType"' in source.head
    if source.shape != "text":
        return False
    return re.search(_TYPE, source.head) is not None or re.search(_BUCKET, source.head) is not None
