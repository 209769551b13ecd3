"""Repeat a benchmark command until the verdict is certain: the looks are fixed in advance.

A session is a folder: a result folder a run with a sidecar beside each result, logs, and a journal that
says what counts. Whoever dies at any moment goes on from there.
"""
