# SPDX-License-Identifier: Apache-2.0
"""The coordinator on Flower: it reads a plan, carries it out and writes what came of it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from epsilens.data.private_files import write_private
from epsilens.errors import EstimateNotTrustworthyError, InputError, MissingExtraError, place_of
from epsilens.federated.coordinator import Coordinator
from epsilens.federated.declaration import FederationSchema, Records
from epsilens.federated.flower import FAILURE
from epsilens.federated.flower.grid_parties import GridParties, MessageGrid
from epsilens.federated.flower.value_messages import GridExchange
from epsilens.federated.plan import PlannedOperation, carry_out
from epsilens.federated.valuing import valuation_record
from epsilens.federated.written import ledger_text, version_record

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry out the plan whose file the run's configuration names."""
    plan = json.loads(Path(str(context.run_config["plan"])).read_text(encoding="utf-8"))
    follow(grid, plan)


def follow(grid: MessageGrid, plan: Mapping[str, Any]) -> None:
    """Carry a plan out, and write its result, or why there is none, into the file that it names.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
    plan : mapping
        With `schema`, `operations`, `n_sites`, `regularisation`, `test` (a file of records or None),
        `timeout` and `patience` in seconds, the files `progress` and `result`, and `secure_aggregation` if sums are
        to be masked.
    """
    try:
        result = _carried_out(grid, plan)
    except (InputError, EstimateNotTrustworthyError, MissingExtraError) as error:
        result = {"error": type(error).__name__, "message": str(error)}
    except Exception as error:  # a mistake of ours: whoever waits for the result must hear of it
        result = {"error": FAILURE, "message": place_of(error)}
    write_json(Path(plan["result"]), result)


def _carried_out(grid: MessageGrid, plan: Mapping[str, Any]) -> dict[str, object]:
    report = Path(plan["progress"])
    write_json(report, {"process": os.getpid(), "done": 0})
    schema = FederationSchema.from_dict(plan["schema"])
    parties = GridParties(
        grid,
        schema,
        n_sites=plan["n_sites"],
        timeout=plan["timeout"],
        patience=plan["patience"],
        masked=plan.get("secure_aggregation", False),
    )
    coordinator = Coordinator(
        schema,
        parties,
        regularisation=plan["regularisation"],
        test=None if plan["test"] is None else read_records(Path(plan["test"])),
    )

    def progress(done: int, total: int, what: str) -> None:
        write_json(report, {"process": os.getpid(), "done": done})

    operations = [PlannedOperation.from_dict(step) for step in plan["operations"]]
    valuations = carry_out(
        coordinator, operations, progress=progress, exchange=GridExchange(parties)
    )
    return {
        "versions": [version_record(version) for version in coordinator.versions],
        "ledger": ledger_text(parties.ledger()),
        "carried": [parties.carried.messages, parties.carried.bytes],
        "valuations": [valuation_record(valuation) for valuation in valuations],
    }


def write_json(path: Path, content: object) -> None:
    """Write a file that is seen whole or not at all, by its owner alone."""
    write_private(path, json.dumps(content, ensure_ascii=False).encode("utf-8"))


def save_records(path: Path, records: Records) -> None:
    """Write records that the coordinator may see, such as its own test records; others may not."""
    stream = io.BytesIO()
    np.savez(stream, codes=records.codes, numbers=records.numbers)
    write_private(path, stream.getvalue())


def read_records(path: Path) -> Records:
    """Read what `save_records` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        return Records(stored["codes"], stored["numbers"])
