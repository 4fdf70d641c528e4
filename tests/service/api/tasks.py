"""Work for a process of its own, as a solver may be."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import PlanInfeasible


def never_ends(values: Mapping[str, Any], _: Any) -> dict[str, Any]:
    Path(values["started"]).touch()
    time.sleep(600)
    return {}


def fails(_: Mapping[str, Any], __: Any) -> dict[str, Any]:
    raise RuntimeError("hunter2")


def is_infeasible(_: Mapping[str, Any], __: Any) -> dict[str, Any]:
    raise PlanInfeasible("no", limits=["a"], relaxations=["b"])


def talks(_: Mapping[str, Any], house: Any) -> dict[str, Any]:
    os.write(1, b"this must not reach standard output\n")
    return {"now": house.clock.now()}
