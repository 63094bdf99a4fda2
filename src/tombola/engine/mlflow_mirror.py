"""MLflow as a mirror: one MLflow run a stored run, in an experiment of the study's name. Needs mlflow-skinny."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tombola.canonical import digest
from tombola.engine.mirror import MirroredRun
from tombola.errors import UsageError

IDENTITY = "tombola.identity"
#: MLflow's own limits: what one request may hold, and how long a parameter may be.
METRICS_AT_ONCE, PARAMETERS_AT_ONCE, LONGEST_PARAMETER = 1000, 100, 6000
#: Set where the user has not: a tracker that is down is noticed in seconds, and nobody but it is told anything.
SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


class MlflowMirror:
    """The tracking server, database or folder at ``uri``. Nothing is asked of it before the first run."""

    def __init__(self, uri: str, experiment: str) -> None:
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        if "://" not in uri or uri.startswith("file:"):
            # MLflow keeps folders working but wants to be told that they are meant.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        try:
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException
        except ImportError:
            raise UsageError(
                "MLflow is not installed", where="--mirror", todo='pip install "tombola[mlflow]"'
            ) from None
        try:
            self._client = MlflowClient(tracking_uri=uri)
        except (MlflowException, ImportError) as error:
            raise UsageError(
                f"this MLflow cannot write there ({str(error).strip().splitlines()[0]})",
                where=f"--mirror mlflow:{uri}",
                todo="give a folder or a server (http://…); a database needs the whole package: pip install mlflow",
            ) from None
        self._error = MlflowException
        self._experiment = experiment
        self._experiment_id: str | None = None
        self._told: dict[str, str] = {}
        self.name = f"mlflow-{digest([uri, experiment])[:12]}"

    def mirror(self, run: MirroredRun) -> None:
        """A run that the tracker has whole is left alone; one that it has in part (we were killed) is told anew."""
        experiment = self._opened()
        if run.identity in self._told:
            if self._client.get_run(self._told[run.identity]).info.status == "FINISHED":
                return
            self._client.delete_run(self._told[run.identity])
        ended = round(time.time() * 1000)
        began = ended - round(run.seconds * 1000)
        tags = {IDENTITY: run.identity, "tombola.step": run.kind}
        created = self._client.create_run(experiment, start_time=began, tags=tags, run_name=run.label)
        self._told[run.identity] = number = created.info.run_id
        self._write(number, run, ended)
        self._client.set_terminated(number, status="FINISHED", end_time=ended)

    def close(self) -> None:
        """Nothing is kept open between two runs."""

    def _write(self, number: str, run: MirroredRun, now: int) -> None:
        from mlflow.entities import Metric, Param

        parameters = [Param(name, str(value)[:LONGEST_PARAMETER]) for name, value in run.parameters.items()]
        for start in range(0, len(parameters), PARAMETERS_AT_ONCE):
            self._client.log_batch(number, params=parameters[start : start + PARAMETERS_AT_ONCE])
        metrics = [
            Metric(name, value, now, int(row.get("step", 0)))
            for row in run.rows
            for name, value in row.items()
            if name != "step"
        ]
        last = int(run.rows[-1].get("step", 0)) if run.rows else 0
        metrics += [Metric(name, value, now, last) for name, value in _final(run).items()]
        for start in range(0, len(metrics), METRICS_AT_ONCE):
            self._client.log_batch(number, metrics=metrics[start : start + METRICS_AT_ONCE])

    def _opened(self) -> str:
        """The experiment, and which runs it has: its own memory counts, the notes in the store may be deleted."""
        if self._experiment_id is None:
            found = self._client.get_experiment_by_name(self._experiment)
            if found is None:
                with suppress(self._error):  # another process may be first
                    self._client.create_experiment(self._experiment)
                found = self._client.get_experiment_by_name(self._experiment)
            if found is None:
                raise RuntimeError(f"MLflow made no experiment '{self._experiment}'")
            token = None
            while True:
                page = self._client.search_runs([found.experiment_id], max_results=1000, page_token=token)
                self._told |= {
                    run.data.tags[IDENTITY]: run.info.run_id for run in page if IDENTITY in run.data.tags
                }
                token = page.token
                if not token:
                    break
            self._experiment_id = found.experiment_id
        return self._experiment_id


def _final(run: MirroredRun) -> Mapping[str, Any]:
    """The last metrics under names that the rows do not have: both are of the last step."""
    names = {name for row in run.rows for name in row}
    return {(f"final.{name}" if name in names else name): value for name, value in run.metrics.items()} | {
        "seconds": run.seconds
    }
