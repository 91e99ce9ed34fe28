"""Values of which some are measured and the others predicted: the last step of Algorithm 2."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Floats, Points
from dshapley.errors import InputError
from dshapley.inference.interpolation import Interpolation, Prediction
from dshapley.inference.label_evidence import LabelEvidence
from dshapley.inference.sampled import SampledValuation
from dshapley.inference.valuation import Valuation
from dshapley.sampling.draws import Draws

__all__ = ["CompletedValuation", "completed", "joined"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CompletedValuation(Valuation):
    """Values of all points, from those of the measured ones.

    How sure the run is (`reliability`, `draws_for` and so on) is a statement about the measured
    points. Intervals and errors are each point's own.
    """

    sampled: SampledValuation
    """The points that were measured."""
    prediction: Prediction
    """The other points."""
    where_predicted: NDArray[np.bool_]

    @property
    def draws(self) -> Draws:
        """The record of the run, of the measured points only."""
        return self.sampled.draws

    @property
    def measured(self) -> SampledValuation:
        """The values that rest on marginals."""
        return self.sampled

    @property
    def predicted(self) -> NDArray[np.bool_]:
        """Which values are predictions."""
        return self.where_predicted

    @property
    def of_draws(self) -> CompletedValuation:
        """The same values with the sampling errors of the draws alone, for these test rows."""
        return self._completed(self.measured.of_draws)

    @property
    def widened(self) -> float:
        """How many times larger the errors are than those of `of_draws` (root mean square)."""
        return self.measured.widened

    @property
    def unseen(self) -> tuple[tuple[int, int], ...]:
        """Ranges of set sizes k (both ends included) with too few draws to know the errors."""
        return self.measured.unseen

    @property
    def reliability(self) -> float:
        """That of the measured values."""
        return self.measured.reliability

    @property
    def surely_reliable(self) -> float:
        """That of the measured values."""
        return self.measured.surely_reliable

    @property
    def most_reliable(self) -> float:
        """That of the measured values."""
        return self.measured.most_reliable

    def draws_for(self, reliability: float) -> int | None:
        """That of the measured values."""
        return self.measured.draws_for(reliability)

    def rank_correlation(self, n_draws: float | None = None) -> float:
        """That of the measured values."""
        return self.measured.rank_correlation(n_draws)

    def at(self, *, m: int) -> CompletedValuation:
        """The values for data sets of size m' = `m`, from the draws with k <= m'."""
        return self._completed(self.measured.at(m=m))

    def _completed(self, measured: SampledValuation) -> CompletedValuation:
        if self.points is None:
            raise InputError("the points behind these values are not known: load with points=")
        return completed(measured, self.points, ~self.predicted)

    def interval(
        self, confidence: float = 0.95, *, simultaneous: bool = False, anytime: bool = False
    ) -> tuple[Floats, Floats]:
        """Each point's own interval, measured or predicted: see `Valuation.interval`."""
        if simultaneous or anytime:
            raise InputError(
                "predicted values have intervals of their own only, neither simultaneous nor "
                "anytime: ask valuation.measured"
            )
        parts = self.measured.interval(confidence), self.prediction.interval(confidence)
        low, high = (_joined(self.predicted, *ends) for ends in zip(*parts, strict=True))
        return low, high

    def label_evidence(self) -> LabelEvidence:
        """That about the measured points."""
        return self.measured.label_evidence()

    @property
    def interpolation(self) -> Interpolation:
        """The model of values behind the predictions, with its held-out R2."""
        return self.measured.interpolation

    def _refuse(self, then: str = "which this needs") -> NoReturn:
        raise InputError(f"predicted values keep no draws, {then}: ask valuation.measured")


def completed(
    measured: SampledValuation, points: Points, where: NDArray[np.bool_]
) -> CompletedValuation:
    """The values of all points, from those of the points at `where`.

    Measured points keep their values, which are nearer to the truth than the regression's.
    """
    measured = replace(measured, points=points.take(where))
    prediction = measured.predict(points.take(~where))
    return joined(measured, prediction, predicted=~where, ids=points.ids, points=points)


def joined(
    measured: SampledValuation,
    prediction: Prediction,
    *,
    predicted: NDArray[np.bool_],
    ids: Array,
    points: Points | None,
) -> CompletedValuation:
    """The values of all points, from those measured and those predicted."""
    return CompletedValuation(
        values=_joined(predicted, measured.values, prediction.values),
        stderr=_joined(predicted, measured.stderr, prediction.stderr),
        m=measured.m,
        n_draws=measured.n_draws,
        ids=ids,
        rows=np.ones(len(ids), dtype=np.int64),
        points=points,
        freedom=measured.freedom,
        sampled=measured,
        prediction=prediction,
        where_predicted=predicted,
    )


def _joined(predicted: NDArray[np.bool_], of_measured: Floats, of_predicted: Floats) -> Floats:
    """One number for each point, from those of the measured and of the predicted points."""
    found = np.empty(len(predicted))
    found[~predicted], found[predicted] = of_measured, of_predicted
    return found
