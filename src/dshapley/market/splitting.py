"""Whether it pays to split a bundle: its value as a set beside the values of its parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dshapley.data.points import Array, Floats
from dshapley.errors import InputError, nearest, warn
from dshapley.inference.sampled import SampledValuation
from dshapley.inference.uncertainty import bonferroni_quantile, check_confidence
from dshapley.inference.valuation import Valuation
from dshapley.market.pricing import for_its_test_rows
from dshapley.notebooks import NotebookDisplay
from dshapley.sampling.provenance import Identity

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Splitting", "splitting"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Splitting(NotebookDisplay):
    """What splitting does to the value of each bundle, as returned by `splitting`.

    Attributes
    ----------
    ids, parts
        The bundles, and the number of parts of each.
    whole, split
        The value of each bundle as a set, and the sum of its parts' values.
    difference, stderr
        split - whole, and its standard error.
    low, high
        Intervals for the differences that hold for all bundles at once.
    joint
        Whether both come from the same draws, so that common errors cancel in the difference.
    """

    ids: Array
    parts: Array
    whole: Floats
    split: Floats
    difference: Floats
    stderr: Floats
    low: Floats
    high: Floats
    joint: bool

    @property
    def beyond_error(self) -> Array:
        """Which bundles change their total beyond the error if they are split."""
        return (self.low > 0) | (self.high < 0)

    def to_frame(self) -> pd.DataFrame:
        """A data frame with one row for each bundle."""
        import pandas as pd

        names = ("parts", "whole", "split", "difference", "stderr", "low", "high", "beyond_error")
        return pd.DataFrame(
            {name: getattr(self, name) for name in names}, index=pd.Index(self.ids, name="id")
        )


def splitting(
    whole: Valuation, parts: Valuation, part_of: Sequence[Any] | Array, *, confidence: float = 0.95
) -> Splitting:
    """Whether the parts of each bundle are worth as much as the bundle, beyond the errors.

    If the parts are worth more, the seller gains by splitting the bundle, and the buyer by asking
    for it whole. A warning names the bundles whose totals differ beyond the error.

    The value of a set is in general not the sum of its rows' values, even if the set is small
    beside m. Let f(j) be the mean of U over sets of j rows. Then b typical rows are worth
    m^-1 (sum over j < b of f(m + j) - f(j)) as a set and b/m (f(m) - f(0)) one by one. So the
    parts are worth more by about m^-1 (sum over j < b of f(j) - f(0)), which is 0 only if so few
    rows teach the model nothing.

    Parameters
    ----------
    whole
        Values of bundles, such as from `value(..., groups=...)`.
    parts
        Values of rows, or of smaller bundles, for the same m. If both runs have the same database,
        m, weights, seed and draws, their sets S are the same and common errors cancel.
    part_of
        The bundle of each part, in the order of `parts.ids`.
    confidence
        The confidence of all intervals at once (Bonferroni).

    Examples
    --------
    >>> import dshapley as ds
    >>> B = ds.Points([[-1.0], [0.0], [4.0], [1.0]])
    >>> lots, design, U = ["a", "a", "b", "b"], ds.Design(B, m=9), lambda S: float(S.X.sum())
    >>> both = [ds.estimate(ds.run(U, design, Z, stop=20)) for Z in (ds.Bundles(B, lots), B)]
    >>> found = splitting(*both, lots)
    >>> found.difference.round(6).tolist(), found.beyond_error.tolist(), found.joint
    ([0.0, 0.0], [False, False], True)
    """
    check_confidence(confidence)
    whole, parts = for_its_test_rows(whole), for_its_test_rows(parts)
    names = np.array([str(name) for name in part_of])
    ids = [str(name) for name in whole.ids]
    if len(names) != len(parts):
        raise InputError(
            f"part_of has {len(names)} entries for {len(parts)} parts: give one for each"
        )
    if whole.m != parts.m:
        raise InputError(
            f"the bundles have values for m = {whole.m} and the parts for m = {parts.m}: use one m"
        )
    _check_names(names, ids)
    _check_potential(whole.about.identity, parts.about.identity)
    member = names == np.array(ids)[:, np.newaxis]
    covered = member @ parts.rows
    if (covered != whole.rows).any():
        i = int(np.flatnonzero(covered != whole.rows)[0])
        raise InputError(
            f"the bundle {ids[i]!r} has {whole.rows[i]} rows, but its parts have {covered[i]}"
        )
    split = member @ parts.values
    joint = _same_draws(whole, parts)
    stderr = _errors(whole, parts, member, joint)
    quantile = bonferroni_quantile(confidence, len(ids), min(whole.freedom, parts.freedom))
    difference = split - whole.values
    # Marginals are kept in single precision, which limits the difference even without error.
    rounding = np.finfo(np.float32).eps * (member @ np.abs(parts.values) + np.abs(whole.values))
    half = quantile * stderr + rounding
    found = Splitting(
        ids=whole.ids,
        parts=member.sum(axis=1),
        whole=whole.values,
        split=split,
        difference=difference,
        stderr=stderr,
        low=difference - half,
        high=difference + half,
        joint=joint,
    )
    _warn(found)
    return found


def _check_names(names: Array, ids: list[str]) -> None:
    odd = sorted(set(names.tolist()) - set(ids))
    if odd:
        raise InputError(f"part_of: there is no bundle {odd[0]!r}; {nearest(odd[0], ids)}")


def _check_potential(ours: Identity, theirs: Identity) -> None:
    for name, value in ours.potential.items():
        there = theirs.potential.get(name)
        if name != "path" and theirs.potential and value != there:
            raise InputError(
                f"the parts were valued with a different potential than the bundles: {name} is "
                f"{there} instead of {value}"
            )


def _same_draws(whole: Valuation, parts: Valuation) -> bool:
    """Whether both runs drew the same sets S and evaluated the same U on them."""
    if not (isinstance(whole, SampledValuation) and isinstance(parts, SampledValuation)):
        return False
    ours, theirs = whole.draws, parts.draws
    if len(ours) != len(theirs) or not ours.about.identity.potential:
        return False
    # Bundles and their parts are different points; nothing else may differ.
    one, two = (replace(d.about.identity, points=None, ids=None) for d in (ours, theirs))
    same = one == two
    return same and np.array_equal(ours.t, theirs.t) and np.array_equal(ours.k, theirs.k)


def _errors(whole: Valuation, parts: Valuation, member: Array, joint: bool) -> Floats:
    if not (isinstance(whole, SampledValuation) and isinstance(parts, SampledValuation)):
        return whole.stderr + member @ parts.stderr  # the worst case of unknown correlations
    ours = whole.influence()
    theirs = np.sum(
        [part @ member[:, columns].T for columns, part in parts.influences()], axis=0
    )  # fmt: skip
    if joint:
        return np.sqrt(((theirs - ours) ** 2).sum(axis=0))
    return np.sqrt((theirs**2).sum(axis=0) + (ours**2).sum(axis=0))


def _warn(found: Splitting) -> None:
    beyond = np.flatnonzero(found.beyond_error)
    if not len(beyond):
        return
    worst = beyond[np.argmax(np.abs(found.difference[beyond]))]
    by = found.difference[worst]
    size = abs(by / found.whole[worst]) if found.whole[worst] else math.inf
    warn(
        f"{len(beyond)} of {len(found.ids)} bundles change their total beyond the error if they "
        "are "
        f"split; the largest change is that of {str(found.ids[worst])!r}, whose parts are worth "
        f"{abs(by):.3g} ({size:.0%}) {'more' if by > 0 else 'less'} than the whole"
    )
