"""The task of a run: the marginals of all points in draw t, and what goes with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dshapley.data.points import Array, Bundles, Floats, Points
from dshapley.errors import DrawError, InputError
from dshapley.inference.estimation import NESTED_EVERY
from dshapley.potentials import (
    ModelPotential,
    Potential,
    marginals_of_each,
    seeded,
    values_of_each,
)
from dshapley.running.workers import Result, Results
from dshapley.sampling.controls import LabelControls
from dshapley.sampling.crossfitting import CrossFitted
from dshapley.sampling.design import Design, Draw
from dshapley.sampling.draws import NO_FOLD
from dshapley.sampling.sizes import bands
from dshapley.sampling.witness import Witness

__all__ = ["FEWEST_REFERENCES", "Marginals", "Tested", "as_record"]

Tested: TypeAlias = Sequence[Potential | CrossFitted]
"""Potentials that differ by their metric only; mostly one."""


@dataclass(frozen=True, kw_only=True)
class Marginals:
    """The task of a run: the function that computes draw t.

    Potentials that differ by their metric are computed together, so that models are trained once.
    What each gets is, bit for bit, what a run of it alone gets.
    """

    Us: Tested
    design: Design
    Z: Points | Bundles
    label_controls: dict[int, LabelControls]
    """The label controls of each fold; empty if the run keeps no control variates."""
    witness: Witness | None
    """Which models are asked about the points they were not trained on; None if none is."""
    lacking: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The positions of the potentials that lack a draw, for draws that some of them have."""

    @classmethod
    def of(cls, Us: Tested, design: Design, Z: Points | Bundles) -> Marginals:
        """The function that computes the draws of this run."""
        U = Us[0]
        if isinstance(U, CrossFitted) != (design.folds is not None):
            raise InputError("cross-fitting needs both cross_fitted(U) and Design(..., folds=)")
        folds = [NO_FOLD] if design.folds is None else np.unique(design.folds).tolist()
        of_fold = (
            {f: LabelControls.of(design.outside(f)) for f in folds}
            if design.control_variates
            else {}
        )
        witness = None
        model = U.U if isinstance(U, CrossFitted) else U
        if isinstance(model, ModelPotential) and isinstance(Z, Points):
            witness = Witness.of(
                design.database, Z, design.weights, classification=model.classification
            )
        return cls(Us=Us, design=design, Z=Z, label_controls=of_fold, witness=witness)

    @property
    def n_label_controls(self) -> int | None:
        """The number of label controls of a draw; None without control variates."""
        return max(map(len, self.label_controls.values())) if self.label_controls else None

    def __call__(self, t: int) -> Results:
        draw, everyone = self.design.draw(t), tuple(range(len(self.Us)))
        chosen = self.lacking.get(t, everyone)
        where = f"draw {t} of seed {self.design.seed} (k = {draw.k}, so |S| = {draw.k - 1})"
        try:
            found = self._results(draw, [self.Us[i] for i in chosen], where)
        except DrawError:
            raise
        except Exception as error:
            raise DrawError(f"{where} failed: {error}") from error
        of = dict(zip(chosen, found, strict=True))
        return Results(tuple(of.get(i) for i in everyone))

    def _results(
        self, draw: Draw, Us: Sequence[Potential | CrossFitted], where: str
    ) -> list[Result]:
        """The result of the draw for each of these potentials."""
        Z, valued = self.Z, np.ones(len(self.Z), dtype=bool)
        if isinstance(Us[0], CrossFitted):
            valued, Z = Us[0].outside(self.Z, draw.fold)
        on_test = _on_test_rows(Us, draw.t)
        Vs = [seeded(U, draw.seed) for U in on_test]
        answers = self._answers(Vs[0], draw)

        def record(gains: Array) -> NDArray[np.float32]:
            found = np.full(len(self.Z), np.nan, dtype=np.float32)
            found[valued] = as_record(gains, where)
            return found

        if not self.label_controls:
            return [
                Result(draw.k, record(gains), answers=answers)
                for gains in marginals_of_each(Vs, draw.S, Z)
            ]
        controls = np.zeros(self.n_label_controls or 0)
        own = self.label_controls[draw.fold](draw.S.y)
        controls[: len(own)] = own  # fewer if one fold has all rows of a class
        nested = self._nested(draw.t, [seeded(U, draw.seed ^ 1) for U in on_test])
        results = []
        for (gains, reference), U_nested in zip(
            self._with_reference(Vs, draw, Z), nested, strict=True
        ):
            _check_controls(reference, U_nested, where)
            results.append(Result(draw.k, record(gains), reference, U_nested, controls, answers))
        return results

    def _answers(self, V: Potential, draw: Draw) -> Array | None:
        """What the model of S says of the points that it was not trained on, if it is asked."""
        if self.witness is None or not self.witness.asks(draw.t, len(draw.S)):
            return None
        assert isinstance(V, ModelPotential)
        # All points are asked about, not only the unseen: learners keep tables of the same rows.
        outputs = V.answers(draw.S, self.witness.points, self.witness.labels)
        return self.witness.answer(outputs, self.witness.unseen(draw.rows))

    def _with_reference(
        self, Us: list[Potential], draw: Draw, Z: Points | Bundles
    ) -> list[tuple[Array, float]]:
        """The marginals of Z, and the mean marginal of the reference sample, for one S."""
        whole = isinstance(self.Z, Points) and self.Z.key == self.design.database.key
        if whole:
            return [(gains, float(gains.mean())) for gains in marginals_of_each(Us, draw.S, Z)]
        R = self.design.reference(draw.t, max(FEWEST_REFERENCES, min(_MOST, len(self.Z) // 20)))
        if isinstance(Z, Bundles):
            ours, theirs = (marginals_of_each(Us, draw.S, part) for part in (Z, R))
            return [(gains, float(of_R.mean())) for gains, of_R in zip(ours, theirs, strict=True)]
        # One call for both, so that the model of S is trained only once.
        both = marginals_of_each(Us, draw.S, Z + R)
        return [(gains[: len(Z)], float(gains[len(Z) :].mean())) for gains in both]

    def _nested(self, t: int, Us: list[Potential]) -> list[Floats]:
        """U of nested sets of 0, 1, 3, 7, ..., m points; NaN except in every so many draws."""
        sizes = bands(self.design.m) - 1
        if t % NESTED_EVERY:
            return [np.full(len(sizes), np.nan) for _ in Us]
        B = self.design.nested(t)
        found = np.array([values_of_each(Us, B.take(slice(0, n))) for n in sizes])
        return [np.array(column) for column in found.T]


def _on_test_rows(Us: Sequence[Potential | CrossFitted], t: int) -> list[Potential]:
    """The potentials, those that are cross-fitted on the test rows of draw t."""
    found: list[Potential] = []
    test: Points | None = None
    for U in Us:
        if isinstance(U, CrossFitted):
            V = U.on(t, test=test)
            test = V.test  # all have the same, so a worker keeps it once
            found.append(V)
        else:
            found.append(U)
    return found


def _check_controls(reference: float, nested: Floats, where: str) -> None:
    """Raise a DrawError unless what the control variates need is finite, or missing as a whole."""
    if (
        not np.isfinite(reference)
        or np.isinf(nested).any()
        or np.isnan(nested[1:]).any() != (np.isnan(nested[0]))
    ):
        raise DrawError(f"{where} failed: U of a set for the control variates is not finite")


FEWEST_REFERENCES, _MOST = 20, 100
"""The least and the largest size of a reference sample. Between these it is a twentieth of the
points valued.
"""


def as_record(gains: Array, where: str) -> NDArray[np.float32]:
    """The marginals as float32; `where` names the draw in an error."""
    if np.abs(gains).max(initial=0.0) > np.finfo(np.float32).max:
        raise DrawError(f"{where} failed: marginals beyond 3e38 cannot be kept: rescale U")
    return gains.astype(np.float32)
