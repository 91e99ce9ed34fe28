"""What identifies a function or an object."""

import json
from functools import partial

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from conftest import labelled
from dshapley.identity import UNIDENTIFIED, plain
from dshapley.learners import Refit
from dshapley.potentials import describe


def closing_over(value):
    def U(S):
        return float(len(S) + np.size(value))

    return U


def with_default(value):
    def U(S, scale=value):
        return float(len(S) * scale)

    return U


def with_keyword_default(value):
    def U(S, *, scale=value):
        return float(len(S) * scale)

    return U


class Scaled:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, S):
        return self.scale * len(S)

    def worth(self, S):
        return self.scale * len(S)


def scaled_size(S, scale):
    return scale * len(S)


@pytest.mark.parametrize(
    "make",
    [
        closing_over,
        with_default,
        Scaled,
        lambda value: Scaled(value).worth,
        lambda value: partial(scaled_size, scale=value),
        lambda value: partial(closing_over(value)),
    ],
    ids=["closure", "default", "object", "method", "partial", "inner"],
)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1.0, 2.0),
        ("a", "b"),
        (np.arange(3), np.arange(4)),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 2}),
        (labelled(9), labelled(9, seed=1)),
        (GaussianNB(), GaussianNB(var_smoothing=1e-3)),
        (np.mean, np.median),
        (None, False),
    ],
    ids=["number", "text", "array", "list", "dict", "points", "model", "function", "nothing"],
)
def test_a_function_is_known_by_what_it_holds(make, one, other):
    shown = describe(make(one))
    assert shown == describe(make(one))
    assert shown != describe(make(other))
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, "1"), (None, "None"), (["a", "b"], ["a, b"]), ([1, 2], "[1, 2]")],
    ids=["number", "nothing", "items", "list"],
)
def test_what_only_looks_the_same_is_told_apart(one, other):
    assert describe(closing_over(one)) != describe(closing_over(other))


def test_a_function_is_known_by_its_keyword_defaults():
    assert describe(with_keyword_default(1.0)) == describe(with_keyword_default(1.0))
    assert describe(with_keyword_default(1.0)) != describe(with_keyword_default(2.0))


def test_a_function_is_known_by_its_source():
    def size(S):
        return len(S)

    first = describe(size)

    def size(S):
        return len(S) + 1

    assert describe(size) != first


def test_two_functions_of_one_line_are_told_apart():
    one, other = (lambda S: float(len(S))), (lambda S: -float(len(S)))
    assert describe(one) != describe(other)


def test_a_function_may_call_itself():
    def U(S):
        return 0.0 if len(S) == 0 else 1.0 + U(S.take(slice(1, None)))

    shown = describe(U)
    assert shown == describe(U)


def test_builtin_functions_have_a_description():
    assert describe(len) == describe(len)
    assert describe(len) != describe(sum)


def unidentifiable():
    """An object of a class that nobody else can look up."""

    class Local:
        def __call__(self, S):
            return 0.0

    U = Local()
    U.rule = lambda S: 0.0
    return U


@pytest.mark.parametrize(
    "wrap",
    [lambda U: U, closing_over, with_default, lambda U: partial(scaled_size, scale=U)],
    ids=["itself", "closure", "default", "partial"],
)
def test_what_cannot_be_identified_is_said_to_be_so(wrap):
    shown = describe(wrap(unidentifiable()))
    assert UNIDENTIFIED in shown["potential"]
    assert UNIDENTIFIED not in describe(wrap(1.0))["potential"]


def test_an_object_describes_itself():
    class Own:
        def __call__(self, S):
            return 0.0

        def describe(self):
            return {"scale": np.float64(2.0), "rows": np.int64(3), "on": np.True_, "name": "own"}

    shown = describe(Own())
    assert shown == {"scale": 2.0, "rows": 3, "on": True, "name": "own"}
    assert {type(value) for value in shown.values()} == {float, int, bool, str}


SCALE = 1.0


def scaled(S):
    return SCALE * len(S)


def test_a_function_is_known_by_the_globals_it_uses(monkeypatch):
    before = describe(scaled)
    assert describe(scaled) == before
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert describe(scaled) != before


def test_functions_that_call_each_other_come_to_an_end():
    def even(S):
        return 1.0 if len(S) == 0 else odd(S.take(slice(1, None)))

    def odd(S):
        return 0.0 if len(S) == 0 else even(S.take(slice(1, None)))

    assert describe(even) == describe(even) != describe(odd)


class Duck:
    def __init__(self, share):
        self.share = share

    def fit(self, X, y):
        return self


def test_an_object_without_parameters_is_known_by_its_contents():
    shown = [Refit(Duck(share)).describe()["estimator.contents"] for share in (0.5, 0.5, 0.1)]
    same, again, other = map(plain, shown)
    assert same == again != other
