"""The steps of a pipeline before its final estimator, fitted once on the database."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from dshapley.data.points import Array, Bundles, Points
from dshapley.errors import InputError
from dshapley.identity import plain

__all__ = ["Fitted", "Preprocess", "fitted_once", "names", "parts"]

Preprocess: TypeAlias = Literal["each", "once"]
"""Whether the first steps are fitted within each set ("each") or on the database ("once")."""


def parts(estimator: Any) -> tuple[list[Any], Any]:
    """The steps before the final estimator of a scikit-learn Pipeline, and the final estimator.

    Any other estimator has no steps. That includes subclasses of Pipeline, which may do more than
    transform.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> parts(make_pipeline(StandardScaler(), Ridge()))
    ([StandardScaler()], Ridge())
    """
    kind = type(estimator)
    if kind.__name__ != "Pipeline" or not kind.__module__.startswith("sklearn."):
        return [], estimator
    *before, final = [step for _, step in estimator.steps]
    deeper, final = parts(final)
    kept = [step for step in before if step is not None and not isinstance(step, str)]
    return kept + deeper, final


def names(steps: list[Any]) -> str:
    """The class names of the steps, for messages."""
    return ", ".join(type(step).__name__ for step in steps)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted:
    """Steps that were fitted once, on the rows and labels of the database."""

    steps: Any
    words: str
    """The types of the steps with a digest of their parameters."""
    database: Points
    """The transformed database."""
    key: str
    """The fingerprint of the database before it was transformed."""
    taken: bool
    """Whether the database itself was taken from other points.

    Workers do not have those points, so they could not recognise the rows of the database as the
    main process does.
    """

    def set(self, S: Points) -> Points:
        """The transformed rows of S; rows drawn from the database are looked up."""
        if len(S) == 0:
            return Points(self.database.X[:0], S.y, S.ids)
        if not self.taken and S.source is not None and S.source[0].key == self.key:
            return self.database.take(S.source[1])
        return self.points(S, name="the set")

    def points(self, Z: Points, *, name: str) -> Points:
        """The transformed rows of Z; errors call them `name`."""
        if len(Z) == 0:
            return self.set(Z)
        return Points(_transformed(self.steps, Z, name=name), Z.y, Z.ids)

    def asked(self, Z: Points | Bundles) -> Points | Bundles:
        """The points or bundles to value, transformed."""
        if isinstance(Z, Bundles):
            return Bundles(self.points(Z.points, name="points"), Z.groups)
        return self.points(Z, name="points")

    def describe(self) -> dict[str, Any]:
        """The values that identify the fitted steps in a run's manifest."""
        return {"preprocess.steps": self.words, "preprocess.fitted": self.database.fingerprint()}


def fitted_once(steps: list[Any], database: Points) -> Fitted:
    """Clones of the steps, fitted on the database with its labels.

    A step with random_state=None gets random_state=0, so that equal calls give equal fits.
    """
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(*[clone(step) for step in steps])
    states = [name for name in pipeline.get_params() if name.split("__")[-1] == "random_state"]
    params = pipeline.get_params()
    pipeline.set_params(**{name: 0 for name in states if params[name] is None})
    try:
        pipeline.fit(database.X, database.y)
    except Exception as error:  # a user's step may raise any error
        raise InputError(
            f"preprocess = 'once': {names(steps)} cannot be fitted on the database: {_line(error)}"
        ) from error
    X = _transformed(pipeline, database, name="database")
    return Fitted(
        steps=pipeline,
        words=", ".join(str(plain(step)) for step in steps),
        database=Points(X, database.y, database.ids),
        key=database.key,
        taken=database.source is not None,
    )


def _transformed(steps: Any, points: Points, *, name: str) -> Array:
    refused = partial("{}: preprocess = 'once' cannot transform it: {}".format, name)
    try:
        found = steps.transform(points.X)
    except Exception as error:  # a user's step may raise any error
        raise InputError(refused(_line(error))) from error
    if hasattr(found, "toarray"):
        found = found.toarray()
    X = np.asarray(found)
    if X.dtype == object or X.dtype.kind in "US":
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                refused(f"the steps return columns that are not numbers ({_line(error)})")
            ) from error
    return X


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
