"""The engine of a cluster: one query for a stretch of steps, run by Spark over a data frame.

**What leaves the cluster is one row for each public cell, its total, and one row of tallies** (`query.totals_sql`). Public tables
of groups, weights and units go to the cluster. Numbers that the operator asks for (`inspect`) are counts over all rows as well,
and cells that could not be read leave as their shapes: digits as 9, letters as a.

What Spark says is not passed on, as it may quote a cell: of a failure only its kind is told.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from halflife.engines.base import TALLIES, Answer, Question, empty_answer
from halflife.engines.columns import check_columns
from halflife.engines.duckdb.files import Unreadable
from halflife.engines.inspection import CELLS, Inspection
from halflife.engines.lists import public_tables
from halflife.engines.spark import inspection
from halflife.engines.spark.query import readings_sql, steps_sql, totals_sql
from halflife.engines.spark.session import check_session, name_failure
from halflife.engines.spark.sql import CALLED, class_of
from halflife.errors import HalflifeError, Interrupted

LOUD = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark that print what a query failed on, which may be a cell."""


class SparkEngine:
    """One data frame of a session, and its answers. See `halflife.engines.base.Engine`."""

    def __init__(self, label: str, frame: Any) -> None:
        check_session(frame.sparkSession)
        self._label, self._session = label, frame.sparkSession
        self._names = [field.name for field in frame.schema.fields]
        self._types = [field.dataType.simpleString() for field in frame.schema.fields]
        self._frame = frame.toDF(*[f"c{i}" for i in range(len(self._names))])
        self._tag, self._stopped = f"halflife-{uuid.uuid4().hex}", threading.Event()

    def columns(self) -> Mapping[str, str]:
        """Return the frame's columns and their types, as DuckDB calls those that it knows too."""
        return {name: CALLED.get(kind, kind.upper()) for name, kind in zip(self._names, self._types, strict=True)}

    def check(self, question: Question) -> None:
        """Refuse columns that are missing, or of a type that cannot be read; no cell is looked at."""
        self._readings(question)

    def aggregate(self, question: Question) -> Answer:
        """Answer a question."""
        q = question
        found = self._run(f"{steps_sql(q, self._readings(q))} {totals_sql(q)}", q)
        sums, tallies = empty_answer(q), dict.fromkeys(TALLIES, 0)
        level, k, g, b, total = (found[c].fill_null(0).to_numpy() for c in ("level", "k", "g", "b", "total"))
        cells = level == 0
        sums[k[cells], g[cells], b[cells]] = total[cells]
        for row in found.select(list(TALLIES)).take(np.flatnonzero(~cells)).to_pylist():
            tallies |= row
        return Answer(sums, tallies)

    def inspect(self, question: Question) -> Inspection:
        """Return what the whole frame holds beside what a question says of it: for the operator alone."""
        readings = self._readings(question, near=False)
        return inspection.inspect(question, readings, lambda q, sql: self._run(sql, q).to_pylist())

    def bad_cells(self, question: Question, which: Literal["time", "value"]) -> list[str | None]:
        """Return the shapes of some cells of text that are no time or no value: digits as 9, letters as a."""
        column = question.time if which == "time" else None if question.wide else question.value
        if column is None:
            return []
        check_columns(self._label, [column], self._names)
        if class_of(self._types[self._names.index(column)]) != "text":
            return []
        value = None if which == "time" else question.value
        asked = replace(question, person=column, value=value, group=None, wide=False)
        readings = self._readings(asked, near=False)
        sql = inspection.shapes_sql(readings, which, CELLS)
        return [row["shape"] for row in self._run(sql, asked).to_pylist()]

    def typical_number(self, column: str) -> float | None:
        """Return about the middle of a column of numbers; None if it is of another type, or empty."""
        check_columns(self._label, [column], self._names)
        i = self._names.index(column)
        if class_of(self._types[i]) not in ("integer", "float", "decimal"):
            return None
        found = self._run(inspection.middle_sql(f"c{i}"), None).to_pylist()
        return None if found[0]["middle"] is None else float(found[0]["middle"])

    def progress(self) -> tuple[str, float]:
        """Return that it is being read, and what share of the tasks of all stages that are known is done."""
        done = tasks = 0
        with contextlib.suppress(Exception):  # the cluster may be gone: then what was asked for fails, and says so
            context = self._session.sparkContext
            tracker = context.statusTracker()
            for job in context._jsc.sc().statusTracker().getJobIdsForTag(self._tag):
                for stage in getattr(tracker.getJobInfo(job), "stageIds", ()):
                    info = tracker.getStageInfo(stage)
                    done, tasks = done + getattr(info, "numCompletedTasks", 0), tasks + getattr(info, "numTasks", 0)
        return "reading", done / tasks if tasks else 0.0

    def interrupt(self) -> None:
        """Break off what another thread has asked for, and cancel its jobs: that raises `Interrupted`."""
        self._stopped.set()
        with contextlib.suppress(Exception):  # the cluster may be gone
            self._session.sparkContext.cancelJobsWithTag(self._tag)

    def close(self) -> None:
        """Let go of the frame; the session stays, as it belongs to the process."""
        self._frame = None

    def _readings(self, question: Question, *, near: bool = True) -> str:
        return readings_sql(self._label, question, self._names, self._types, near=near)

    @contextlib.contextmanager
    def _tables(self, question: Question | None) -> Iterator[dict[str, Any]]:
        """The public tables of a question, on the cluster; meanwhile PySpark prints nothing."""
        loggers = [logging.getLogger(name) for name in LOUD]
        before = [logger.disabled for logger in loggers]
        try:
            for logger in loggers:
                logger.disabled = True
            found = {} if question is None else public_tables(question)
            yield {name: self._session.createDataFrame(table) for name, table in found.items()}
        finally:
            for logger, disabled in zip(loggers, before, strict=True):
                logger.disabled = disabled

    def _run(self, sql: str, question: Question | None) -> Any:
        """Return what a query gives, as an Arrow table. Refusals are raised after the `except`: they have no context."""
        context = self._session.sparkContext
        refusal: HalflifeError
        try:
            context.addJobTag(self._tag)
            with self._tables(question) as tables:
                if not self._stopped.is_set():
                    return self._session.sql(sql, source=self._frame, **tables).toArrow()
            refusal = Interrupted(f"{self._label}: reading was broken off")
        except Exception as error:
            refusal = self._refuse(error)
        finally:
            with contextlib.suppress(Exception):  # the cluster may be gone
                context.removeJobTag(self._tag)
        raise refusal

    def _refuse(self, error: Exception) -> HalflifeError:
        if self._stopped.is_set():
            return Interrupted(f"{self._label}: reading was broken off")
        return Unreadable(
            f"{self._label} cannot be read to its end ({name_failure(error)}): files may be damaged, or differ in the types of "
            "their columns, or the cluster lost what it worked with: look at the job's page there, or write the readings anew"
        )
