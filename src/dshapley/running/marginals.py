"""The task of a run: the marginals of all points in draw t, and what goes with them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

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
from dshapley.sampling.test_groups import TestGroups
from dshapley.sampling.test_influence import N_GROUPS
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
    test_groups: tuple[TestGroups | None, ...] = ()
    """The groups of test rows of each potential; None for one that is not scored without them."""
    lacking: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The positions of the potentials that lack a draw, for draws that some of them have."""

    @classmethod
    def of(
        cls, Us: Tested, design: Design, Z: Points | Bundles, *, test_rows: bool = False
    ) -> Marginals:
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
        groups = tuple(
            TestGroups.of_rows(each) if test_rows and isinstance(each, ModelPotential) else None
            for each in Us
        )
        return cls(
            Us=Us, design=design, Z=Z, label_controls=of_fold, witness=witness, test_groups=groups
        )

    @property
    def n_label_controls(self) -> int | None:
        """The number of label controls of a draw; None without control variates."""
        return max(map(len, self.label_controls.values())) if self.label_controls else None

    def __call__(self, t: int) -> Results:
        draw, everyone = self.design.draw(t), tuple(range(len(self.Us)))
        chosen = self.lacking.get(t, everyone)
        where = f"draw {t} of seed {self.design.seed} (k = {draw.k}, so |S| = {draw.k - 1})"
        try:
            found = self._results(draw, chosen, where)
        except DrawError:
            raise
        except Exception as error:
            raise DrawError(f"{where} failed: {error}") from error
        of = dict(zip(chosen, found, strict=True))
        return Results(tuple(of.get(i) for i in everyone))

    def _results(self, draw: Draw, chosen: Sequence[int], where: str) -> list[Result]:
        """The result of the draw for each of the chosen potentials."""
        Us = [self.Us[i] for i in chosen]
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

        scored = _Scored(Vs, [self._asked(i, draw.t) for i in chosen])
        if self.label_controls:
            gains, references = self._with_reference(scored, draw, Z)
        else:
            gains, references = scored.gains(draw.S, Z), []
        results = [
            Result(draw.k, record(whole), answers=answers,
                   moved=None if moved is None else as_record(moved, where))
            for whole, moved in gains
        ]  # fmt: skip
        if not self.label_controls:
            return results
        controls = np.zeros(self.n_label_controls or 0)
        own = self.label_controls[draw.fold](draw.S.y)
        controls[: len(own)] = own  # fewer if one fold has all rows of a class
        nested = self._nested(draw.t, [seeded(U, draw.seed ^ 1) for U in on_test])
        for reference, U_nested in zip(references, nested, strict=True):
            _check_controls(reference, U_nested, where)
        return [
            result._replace(reference=reference, nested=U_nested, label_controls=controls)
            for result, reference, U_nested in zip(results, references, nested, strict=True)
        ]

    def _asked(self, i: int, t: int) -> TestGroups | None:
        """The groups of test rows that potential i is scored on in draw t, if it is."""
        U, groups = self.Us[i], self.test_groups[i] if self.test_groups else None
        asked = groups is not None and isinstance(U, ModelPotential) and groups.asks(t)
        return groups if asked else None

    def _answers(self, V: Potential, draw: Draw) -> Array | None:
        """What the model of S says of the points that it was not trained on, if it is asked."""
        if self.witness is None or not self.witness.asks(draw.t, len(draw.S)):
            return None
        assert isinstance(V, ModelPotential)
        # All points are asked about, not only the unseen: learners keep tables of the same rows.
        outputs = V.answers(draw.S, self.witness.points, self.witness.labels)
        return self.witness.answer(outputs, self.witness.unseen(draw.rows))

    def _with_reference(
        self, scored: _Scored, draw: Draw, Z: Points | Bundles
    ) -> tuple[list[Gains], list[float]]:
        """The marginals of Z, and the mean marginal of the reference sample, for one S."""
        whole = isinstance(self.Z, Points) and self.Z.key == self.design.database.key
        if whole:
            gains = scored.gains(draw.S, Z)
            return gains, [float(found.mean()) for found, _ in gains]
        R = self.design.reference(draw.t, max(FEWEST_REFERENCES, min(_MOST, len(self.Z) // 20)))
        if isinstance(Z, Bundles):
            theirs = marginals_of_each(scored.Vs, draw.S, R)
            return scored.gains(draw.S, Z), [float(found.mean()) for found in theirs]
        # One call for both, so that the model of S is trained only once.
        n, both = len(Z), scored.gains(draw.S, Z + R)
        gains = [(g[:n], None if moved is None else moved[:, :n]) for g, moved in both]
        return gains, [float(g[n:].mean()) for g, _ in both]

    def _nested(self, t: int, Us: list[Potential]) -> list[Floats]:
        """U of nested sets of 0, 1, 3, 7, ..., m points; NaN except in every so many draws."""
        sizes = bands(self.design.m) - 1
        if t % NESTED_EVERY:
            return [np.full(len(sizes), np.nan) for _ in Us]
        B = self.design.nested(t)
        found = np.array([values_of_each(Us, B.take(slice(0, n))) for n in sizes])
        return [np.array(column) for column in found.T]


Gains: TypeAlias = tuple[Array, Array | None]
"""The marginals, and how far each group of test rows moves them, where that is asked for."""


@dataclass(frozen=True, eq=False)
class _Scored:
    """The potentials of a draw, and the groups of test rows that each is scored on too."""

    Vs: list[Potential]
    groups: list[TestGroups | None]

    def gains(self, S: Points, Z: Points | Bundles) -> list[Gains]:
        """The marginals of Z by each potential. One call scores the same models on all rows."""
        asked = list(self.Vs)
        for V, groups in zip(self.Vs, self.groups, strict=True):
            if groups is not None:
                asked += groups.turned(cast("ModelPotential", V))
        found = marginals_of_each(asked, S, Z)
        rest, gains = iter(found[len(self.Vs) :]), list[Gains]()
        for V, groups, whole in zip(self.Vs, self.groups, found, strict=False):
            moved = None
            if groups is not None:
                turned = np.stack(list(itertools.islice(rest, N_GROUPS)))
                moved = groups.moved(cast("ModelPotential", V), whole, turned)
            gains.append((whole, moved))
        return gains


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
