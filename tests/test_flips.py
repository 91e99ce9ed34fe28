"""Flips: the labels are those of multiplying everything out in double precision."""

import numpy as np
import pytest

from dshapley.learners.flips import Beyond, Flips

SCALES = [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0]


def problem(n, p, *, classes=2, r=20, scale=1.0, seed=0):
    """Decision values f, test rows T and steps, of lengths about `scale`."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=n if classes == 2 else (n, classes))
    T = rng.normal(size=(n, p)) / np.sqrt(p)
    steps = rng.normal(size=(r, p) if classes == 2 else (r, classes, p))
    return f, T, scale * steps * rng.uniform(0.1, 2.0, size=(r,) + (1,) * (steps.ndim - 1))


def values(f, T, steps, beyond=None, out=None):
    """The decision values of every model, in double precision."""
    if steps.ndim == 2:
        return f + steps @ T.T
    moved = f + np.einsum("rcp,np->rnc", steps, T)
    if out is not None:
        moved += np.einsum("rq,nq,rc->rnc", out.directions, beyond, out.far)
    return moved


def decided(decisions, classes):
    return decisions > 0.0 if classes == 2 else decisions.argmax(axis=-1)


def leads(decisions, classes):
    if classes == 2:
        return np.abs(decisions)
    best = np.sort(decisions, axis=-1)
    return best[..., -1] - best[..., -2]


# --- brute force


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("n", "p"), [(300, 12), (40, 1), (1, 5), (700, 60)])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_labels_equal_brute_force(classes, n, p, scale):
    f, T, steps = problem(n, p, classes=classes, scale=scale, seed=n + p)
    labels, _ = Flips(f, T).labels(steps)
    expected = decided(values(f, T, steps), classes)
    assert labels.shape == (len(steps), n)
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_scales_flip_few_and_many(classes):
    """What the test above goes through is not all of one kind."""
    shares = []
    for scale in SCALES:
        f, T, steps = problem(300, 12, classes=classes, scale=scale)
        labels, _ = Flips(f, T).labels(steps)
        shares.append(np.mean(labels != decided(f, classes)))
    assert 0.0 < shares[2] < 0.01
    assert shares[-1] > 0.3
    assert shares == sorted(shares)


@pytest.mark.parametrize("classes", [2, 4])
def test_more_models_than_a_block_and_in_any_order(classes):
    f, T, steps = problem(200, 8, classes=classes, r=300, scale=0.05)
    steps[::3] *= 100.0  # some look at all rows, others at few
    flips = Flips(f, T)
    labels, gaps = flips.labels(steps, np.full(300, 1e-3))
    np.testing.assert_array_equal(labels, decided(values(f, T, steps), classes))
    order = np.random.default_rng(0).permutation(300)
    again, same_gaps = flips.labels(steps[order], np.full(300, 1e-3))
    np.testing.assert_array_equal(again, labels[order])
    np.testing.assert_allclose(same_gaps, gaps[order], rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("shape", [(0, 5), (0, 3, 5)])
def test_no_models(shape):
    f, T, _ = problem(30, 5, classes=2 if len(shape) == 2 else 3)
    labels, gaps = Flips(f, T).labels(np.empty(shape))
    assert labels.shape == (0, 30)
    assert gaps.shape == (0,)


@pytest.mark.parametrize("classes", [2, 4])
def test_no_step_is_the_model_itself(classes):
    f, T, steps = problem(50, 5, classes=classes)
    labels, _ = Flips(f, T).labels(np.zeros_like(steps))
    np.testing.assert_array_equal(labels, np.tile(decided(f, classes), (len(steps), 1)))


# --- rows that no step moves, and ties


@pytest.mark.parametrize("scale", [1e-3, 1.0])
@pytest.mark.parametrize("classes", [2, 4])
def test_rows_of_zeros_keep_their_label(classes, scale):
    f, T, steps = problem(60, 5, classes=classes, scale=scale)
    T[::3] = 0.0
    labels, gaps = Flips(f, T).labels(steps, np.full(len(steps), 1e-3))
    np.testing.assert_array_equal(labels, decided(values(f, T, steps), classes))
    assert not np.isnan(gaps).any()
    nothing, gaps = Flips(f, np.zeros_like(T)).labels(steps, np.full(len(steps), 1e3))
    np.testing.assert_array_equal(nothing, np.tile(decided(f, classes), (len(steps), 1)))
    np.testing.assert_array_equal(gaps, np.inf)


@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_a_tie_of_two_is_the_first_class(scale):
    """Integers, so that ties are exact in any precision."""
    rng = np.random.default_rng(0)
    T = rng.integers(-3, 4, size=(200, 4)).astype(float)
    steps = rng.integers(-2, 3, size=(30, 4)) * scale * 100.0
    f = -(T @ steps[0])
    decisions = values(f, T, steps)
    assert (decisions == 0.0).any(axis=1).sum() > 5
    labels, gaps = Flips(f, T).labels(steps)
    np.testing.assert_array_equal(labels, decisions > 0.0)
    tied = ((decisions == 0.0) & (T != 0.0).any(axis=1)).any(axis=1)
    np.testing.assert_array_equal(gaps[tied], 0.0)


def test_a_tie_of_many_is_the_first_of_the_largest():
    rng = np.random.default_rng(0)
    T = rng.integers(-2, 3, size=(200, 3)).astype(float)
    steps = rng.integers(-1, 2, size=(30, 4, 3)).astype(float)
    f = rng.integers(-2, 3, size=(200, 4)).astype(float)
    decisions = values(f, T, steps)
    assert (leads(decisions, 4) == 0.0).mean() > 0.1
    labels, gaps = Flips(f, T).labels(steps)
    np.testing.assert_array_equal(labels, decisions.argmax(axis=2))
    assert (gaps == 0.0).sum() > 10


# --- rows so near to the boundary that single precision is not enough


def on_the_boundary(classes, *, p=20, n=400, r=12, scale=0.1, seed=1):
    """Row j is 1e-9 or less from the boundary of model j % r."""
    rng = np.random.default_rng(seed)
    f, T, steps = problem(n, p, classes=classes, r=r, scale=scale, seed=seed)
    which = np.arange(n) % r
    tiny = rng.uniform(-1e-9, 1e-9, size=n) * scale
    if classes == 2:
        return -np.einsum("np,np->n", T, steps[which]) + tiny, T, steps
    moved = np.einsum("ncp,np->nc", steps[which], T)
    first, second = (rng.permuted(np.tile(np.arange(classes), (n, 1)), axis=1).T)[:2]
    rows = np.arange(n)
    f = np.minimum(f, 0.0) - 1.0 - moved  # the others are behind
    f[rows, first] = 1.0 - moved[rows, first]
    f[rows, second] = 1.0 - moved[rows, second] + tiny
    return f, T, steps


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("classes", [2])
def test_what_single_precision_gets_wrong_is_looked_at_again(classes, scale):
    f, T, steps = on_the_boundary(classes, scale=scale)
    expected = decided(values(f, T, steps), classes)
    rough = decided(values(*(part.astype(np.float32) for part in (f, T, steps))), classes)
    assert (rough != expected).sum() > 50  # or nothing would need a second look
    labels, gaps = Flips(f, T).labels(steps)
    sure = leads(values(f, T, steps), classes) > 1e-13 * scale
    np.testing.assert_array_equal(labels[sure], expected[sure])
    assert (gaps < 1e-8).all()


# --- gaps


@pytest.mark.parametrize("blur", [1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("scale", [0.01, 1.0])
@pytest.mark.parametrize("classes", [2, 4])
def test_within_a_blur_less_than_the_gap_nothing_flips(classes, scale, blur):
    f, T, steps = problem(40, 6, classes=classes, r=60, scale=scale)
    flips, rng = Flips(f, T), np.random.default_rng(5)
    labels, gaps = flips.labels(steps, np.full(len(steps), blur))
    sure = gaps > blur
    assert sure.any() if blur < 0.1 else not sure.all()
    for _ in range(200):
        away = rng.normal(size=steps.shape)
        away *= blur / np.sqrt((away**2).sum(axis=-1, keepdims=True))
        nearby = decided(values(f, T, steps + away), classes)
        np.testing.assert_array_equal(nearby[sure], labels[sure])


@pytest.mark.parametrize("scale", [1e-3, 0.01, 1.0])
def test_a_gap_of_two_classes_is_the_distance_to_the_nearest_flip(scale):
    f, T, steps = problem(300, 6, r=60, scale=scale)
    norms = np.linalg.norm(T, axis=1)
    distance = (np.abs(values(f, T, steps)) / norms).min(axis=1)
    blur = np.median(distance)
    _, gaps = Flips(f, T).labels(steps, np.full(len(steps), blur))
    near = distance < 0.99 * blur
    assert near.sum() > 20
    np.testing.assert_allclose(gaps[near], distance[near], rtol=1e-3, atol=1e-7)
    assert (gaps[distance > 1.01 * blur] > blur).all()


@pytest.mark.parametrize("scale", [1e-3, 0.01, 1.0])
def test_a_gap_of_many_classes_is_the_lead_by_the_length(scale):
    f, T, steps = problem(300, 6, classes=4, r=60, scale=scale)
    norms = np.linalg.norm(T, axis=1)
    distance = (leads(values(f, T, steps), 4) / (2.0 * norms)).min(axis=1)
    blur = np.median(distance)
    _, gaps = Flips(f, T).labels(steps, np.full(len(steps), blur))
    near = distance < 0.99 * blur
    assert near.sum() > 20
    np.testing.assert_allclose(gaps[near], distance[near], rtol=1e-3, atol=1e-7)
    assert (gaps[distance > 1.01 * blur] > blur).all()


def test_a_step_to_the_nearest_flip_flips():
    """The gap is no larger than it has to be either."""
    f, T, steps = problem(40, 6, r=30, scale=0.1)
    labels, gaps = Flips(f, T).labels(steps, np.full(len(steps), 10.0))
    decisions = values(f, T, steps)
    nearest = (np.abs(decisions) / np.linalg.norm(T, axis=1)).argmin(axis=1)
    for z, j in enumerate(nearest):
        towards = -np.sign(decisions[z, j]) * T[j] / np.linalg.norm(T[j])
        for share, flipped in ((0.999, False), (1.001, True)):
            there = values(f, T, steps[[z]] + share * gaps[z] * towards)[0] > 0.0
            assert (there != labels[z]).any() == flipped


# --- other lengths, and coordinates beyond T


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("classes", [3, 5])
def test_lengths_in_another_norm(classes, scale):
    """|d| = the root of d'Md for an M over all classes: its lengths are in M^-1."""
    p, n, r = 4, 300, 40
    f, T, steps = problem(n, p, classes=classes, r=r, scale=scale)
    rng = np.random.default_rng(3)
    A = rng.normal(size=(classes * p, classes * p))
    M = A @ A.T + np.eye(classes * p)
    inverse = np.linalg.inv(M)
    own = f.argmax(axis=1)
    lengths = np.zeros((n, classes))
    for j in range(n):
        for b in range(classes):
            lead = np.zeros((classes, p))
            lead[own[j]] += T[j]
            lead[b] -= T[j]
            lengths[j, b] = np.sqrt(lead.ravel() @ inverse @ lead.ravel())
    flat = steps.reshape(r, -1)
    sizes = np.sqrt(np.einsum("ri,ij,rj->r", flat, M, flat))
    labels, gaps = Flips(f, T, lengths).labels(steps, np.full(r, 1e-3), sizes)
    decisions = values(f, T, steps)
    np.testing.assert_array_equal(labels, decided(decisions, classes))
    sure = gaps > 1e-3
    root = np.linalg.cholesky(inverse)
    for _ in range(50):
        away = rng.normal(size=(r, classes * p))
        away *= 1e-3 / np.linalg.norm(away, axis=1, keepdims=True)
        nearby = decided(values(f, T, steps + (away @ root.T).reshape(steps.shape)), classes)
        np.testing.assert_array_equal(nearby[sure], labels[sure])


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("p", [0, 5])
def test_coordinates_beyond(p, scale):
    classes, q, n, r = 4, 7, 300, 40
    f, T, steps = problem(n, max(p, 1), classes=classes, r=r, scale=scale)
    T, steps = T[:, :p], steps[:, :, :p]
    rng = np.random.default_rng(4)
    beyond = rng.normal(size=(n, q))
    directions = rng.normal(size=(r, q))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    out = Beyond(directions, scale * rng.normal(size=(r, classes)))
    labels, _ = Flips(f, T, beyond=beyond).labels(steps, beyond=out)
    decisions = values(f, T, steps, beyond, out)
    np.testing.assert_array_equal(labels, decided(decisions, classes))
    if scale >= 0.1:
        assert (labels != decided(values(f, T, steps), classes)).any()


@pytest.mark.parametrize("scale", SCALES)
def test_steps_along_one_row_each(scale):
    f, T, _ = problem(300, 9, classes=4)
    rng = np.random.default_rng(6)
    directions, far = rng.normal(size=(40, 9)), scale * rng.normal(size=(40, 4))
    directions[0] = far[1] = 0.0
    labels, _ = Flips.along(f, T).labels_along(directions, far)
    decisions = values(f, T, far[:, :, np.newaxis] * directions[:, np.newaxis, :])
    np.testing.assert_array_equal(labels, decided(decisions, 4))


def test_single_precision_of_large_decision_values():
    f = np.array([[1000 + 2.9e-5, 1000 + 3.2e-5, -2000.0]])
    labels, _ = Flips(f, np.ones((1, 1))).labels(np.array([[[1e-5], [0.0], [0.0]]]))
    assert labels.tolist() == [[0]]


@pytest.mark.parametrize("scale", [1e-3, 0.01, 0.1])
@pytest.mark.parametrize("far", [1.0, 5.0, 20.0])
def test_rows_far_out_and_near_a_boundary(far, scale):
    rng = np.random.default_rng(0)
    n, p, r = 2000, 10, 50
    T, steps = rng.normal(size=(n, p)) / np.sqrt(p), scale * rng.normal(size=(r, 4, p))
    moved = np.einsum("ncp,np->nc", steps[np.arange(n) % r], T)
    f = rng.uniform(0, 1, (n, 1)) + far * np.array([1.0, 1.0, -1.0, -1.0]) - moved
    f[:, 1] += rng.uniform(-1e-7, 1e-7, n) * far
    labels, _ = Flips(f, T).labels(steps)
    decisions = values(f, T, steps)
    sure = leads(decisions, 4) > 1e-12 * far
    np.testing.assert_array_equal(labels[sure], decisions.argmax(axis=2)[sure])
