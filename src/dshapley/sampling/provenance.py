"""What is known about a run beside its draws: what the run is, and where it came from.

These records are written to the manifest of a run folder and read back from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from dshapley.documents import Plain, valid

__all__ = ["About", "Context", "Identity", "Source"]

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
AtLeastZero = Annotated[int, msgspec.Meta(ge=0)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The parameters that identify a run. A call where any of them differs is another run."""

    method: str = "unknown"
    seed: AtLeastZero = 0
    m: AtLeastOne | None = None
    weights: str | None = None
    balanced: bool | None = None
    control_variates: bool | None = None
    database: str | None = None
    """The fingerprint of the database."""
    points: str | None = None
    """The fingerprint of the points valued."""
    ids: str | None = None
    """The fingerprint of the names of the points valued."""
    options: dict[str, Plain] = field(default_factory=dict)
    """Options that only this method has, such as the tolerance of truncated permutations."""
    potential: dict[str, Plain] = field(default_factory=dict)
    """What `describe` returns for the potential."""

    @property
    def metric(self) -> str | None:
        """The name of the metric; None if U has none."""
        name = self.potential.get("metric")
        return name if isinstance(name, str) else None

    @property
    def empty(self) -> float | None:
        """U(empty); None if it is not known."""
        found = self.potential.get("empty")
        known = isinstance(found, int | float) and not isinstance(found, bool)
        return float(found) if known else None  # type: ignore[arg-type]

    @property
    def named(self) -> dict[str, Plain]:
        """Every value by its name, for comparing two runs."""
        own = {name: value for name, value in asdict(self).items() if not isinstance(value, dict)}
        return {**own, **self.options, **self.potential}


@dataclass(frozen=True, kw_only=True)
class Source:
    """The tables that `dshapley value` read, and how it prepared them."""

    table: str
    target: str
    task: Literal["classification", "regression"]
    model: str
    test_table: str | None = None
    test_size: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None
    points_table: str | None = None
    id: str | None = None
    group: str | None = None
    drop: tuple[str, ...] = ()
    min_rows: AtLeastOne = 1
    preprocess: Literal["each", "once"] = "each"
    retrain: Literal["auto", "never", "always"] = "auto"


@dataclass(frozen=True, kw_only=True)
class Context:
    """What is worth keeping about a run although it does not identify the run."""

    share: Share = 1.0
    """The share of the points that was measured; the others are predicted."""
    database_rows: AtLeastOne | None = None
    weights: str | None = None
    """The size weights as they were asked for, such as "auto"."""
    stop: str = ""
    test_labels: str | None = None
    """A digest from which the other party of a sale recognises its own test rows."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why marginals are computed by retraining, in words."""
    source: Source | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    """Anything else that the caller wants to keep."""


@dataclass(frozen=True, kw_only=True)
class About:
    """What is known about a run beside its draws."""

    identity: Identity = field(default_factory=Identity)
    context: Context = field(default_factory=Context)

    @staticmethod
    def read(identity: Mapping[str, Any], context: Mapping[str, Any]) -> About:
        """The record from the values of a manifest; ValueError if they do not fit the schema."""
        return About(identity=valid(identity, Identity), context=valid(context, Context))
