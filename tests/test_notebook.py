"""Results in a notebook: small, escaped, well-formed, and there for every result."""

import dataclasses
import inspect
import io
import re
import sys
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import dshapley as ds
from conftest import labelled
from dshapley import market
from dshapley.baselines.curves import Curve
from dshapley.inference.completed import joined
from dshapley.inference.database_error import DatabaseError
from dshapley.inference.interpolation import Prediction
from dshapley.market.price_list_file import COLUMNS
from dshapley.notebooks import NotebookDisplay
from dshapley.reporting.notebook import html_of
from dshapley.running import progress

HOSTILE = "<script>alert(1)</script>"
ODD = ['"><img src=x onerror=alert(1)>', "</td></table>", "&amp;", "$x$ $y$", "\ud800\x00\u202e",
       "'" * 200, "", "a\nb", "日本語"]  # fmt: skip
MOST_BYTES = 10_000
TAGS = {"div", "b", "table", "caption", "tr", "th", "td", "svg", "path"}
ATTRIBUTES = {"class", "style", "colspan", "viewbox", "width", "height", "role", "aria-label",
              "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity",
              "stroke-dasharray", "stroke-linecap", "d"}  # fmt: skip


class Read(HTMLParser):
    """A fragment as its tags and texts; refuses what is not closed or not ours."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.cells = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS, tag
        assert {name for name, _ in attrs} <= ATTRIBUTES, attrs
        for name, value in attrs:
            if name in ("style", "d", "fill", "stroke"):
                assert "url" not in value, value
            if name == "style":  # a notebook is dark or light, so its own colours are used
                assert "background" not in value, value
                assert not re.search(r"(^|;)color:", value), value
            if name == "d":
                assert re.fullmatch(r"[MLHVZh0-9. -]*", value), value
        self.open.append(tag)
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        assert "svg" not in self.open, "text would remain where the picture is removed"
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data


def exact(n=12, *, ids=None, stderr=0.01, **changes):
    values = np.linspace(0.3, -0.1, n)
    parts = {
        "values": values,
        "stderr": np.full(n, stderr),
        "m": 100,
        "n_draws": 50,
        "ids": np.arange(n) if ids is None else np.array(ids, dtype=object),
        "rows": np.ones(n, int),
    }
    return ds.Valuation(**parts | changes)


def draws_of(n=6, T=60, *, ids=None):
    rng = np.random.default_rng(0)
    return ds.Draws(
        t=np.arange(T),
        k=rng.integers(1, 11, T),
        marginals=rng.normal(np.linspace(-1, 1, n), 0.3, size=(T, n)).astype(np.float32),
        weights=np.ones(10) / 10,
        ids=np.arange(n) if ids is None else np.array(ids, dtype=object),
        rows=np.ones(n, int),
        seconds=np.full(T, 0.1),
    )


def predictions(n=12, *, ids=None):
    one = exact(n, ids=ids)
    return Prediction(
        values=one.values, stderr=one.stderr, ids=one.ids, inherited=np.zeros(n),
        covariance=np.zeros(n), shape=np.ones(3),
    )  # fmt: skip


def half_predicted(n=12, *, ids=None):
    ids = np.arange(n) if ids is None else np.array(ids, dtype=object)
    predicted = np.arange(n) % 2 == 1
    found = ds.estimate(draws_of((~predicted).sum(), ids=ids[~predicted]))
    others = predictions(predicted.sum(), ids=ids[predicted])
    return joined(found, others, predicted=predicted, ids=ids, points=None)


def price_list(n=12, *, ids=None, m=(20, 100), rule="price = value * rate"):
    one = exact(n, ids=ids)
    frame = pd.DataFrame(dict.fromkeys(COLUMNS, one.values))
    # pandas refuses lone surrogates by itself.
    frame["id"] = [str(name).encode(errors="replace").decode() for name in one.ids]
    frame["rows"] = 1
    frame["price_low"], frame["price_high"] = frame["price"] - 0.1, frame["price"] + 0.1
    frame = pd.concat([frame.assign(m=size) for size in m], ignore_index=True)
    total = {"price": 5.0, "price_low": 4.0, "price_high": 6.0}
    terms = {"offered": n, "m": list(m), "confidence": 0.95, "pricing": {"rule": rule},
             "totals": [{"m": size, **total} for size in m]}  # fmt: skip
    return market.PriceList(frame, terms)


def split(n=12, *, ids=None):
    one = exact(n, ids=ids)
    return market.Splitting(
        ids=one.ids, parts=np.full(n, 3), whole=one.values, split=2 * one.values,
        difference=one.values, stderr=one.stderr, low=one.values - 0.02, high=one.values + 0.02,
        joint=True,
    )  # fmt: skip


def removal(n=11, repeats=3):
    shares = np.linspace(0, 0.5, n)
    random = 0.9 - 0.1 * shares + 0.01 * np.arange(repeats)[:, np.newaxis]
    return Curve(fractions=shares, counts=np.arange(n), scores=0.9 - shares, random=random)


@pytest.fixture(scope="module")
def checked():
    test, S, B = labelled(60, seed=1), labelled(8, seed=2), labelled(20, seed=3)
    U = ds.potential(LogisticRegression(), test=test)
    sold = ds.value(labelled(60), points=S, model=LogisticRegression(), test=test, m=28, stop=60)
    return market.check(market.price_list(sold, rate=1.0), B, S, U=U, way="subsets", draws=20)


def matched(distance=1.0):
    gaps = tuple({"m": m, "gap": 0.1, "beyond": 0.05} for m in range(1, 1000))
    return market.Match(
        distance=distance, stderr=0.05, noise=0.2, noise_high=0.3, shift=0.9, rows=(50, 60),
        gaps=gaps,
    )  # fmt: skip


PLANNED = ds.planning.Plan(within=0.01, confidence=0.95, draws=1200, seconds=4000.0)
WITH_IDS = [exact, half_predicted, predictions, price_list, split,
            lambda n=12, ids=None: ds.estimate(draws_of(n, ids=ids))]  # fmt: skip


def compared():
    return ds.compare(exact(), exact(stderr=0.02), exact(values=np.linspace(-1, 1, 12)))


def between_databases():
    return DatabaseError(
        stderr=np.linspace(0.1, 0.2, 12), typical=0.15, most=0.2, of_draws=0.1, rows=50,
        n_draws=100, draws_needed=None, ids=np.arange(12),
    )  # fmt: skip


OTHERS = [draws_of, removal, matched, lambda: PLANNED, compared, between_databases]


# -- Every result


def public_functions():
    """The functions of the public modules, and the methods of the public classes."""
    for name in ds.__all__:
        part = getattr(ds, name)
        if isinstance(part, ModuleType):
            parts = [getattr(part, inner) for inner in getattr(part, "__all__", [])]
        else:
            parts = [part]
        for one in parts:
            if inspect.isclass(one):
                yield from (f for _, f in inspect.getmembers(one, inspect.isfunction))
            elif callable(one):
                yield inspect.unwrap(one)


def returned_classes():
    """The dataclasses of dshapley that public functions return."""
    # First, because it imports the modules that the classes are looked for in.
    notes = {str(getattr(f, "__annotations__", {}).get("return")) for f in public_functions()}
    classes = {
        part.__name__: part
        for name, module in list(sys.modules.items())
        if name.startswith("dshapley.")
        for part in vars(module).values()
        if inspect.isclass(part) and dataclasses.is_dataclass(part)
        if ".learners." not in name  # they have classes of the same names
    }
    names = {word for note in notes for word in re.findall(r"\w+", note)}
    return {classes[name] for name in names & set(classes)}


NOT_RESULTS = {"Dataset", "Draw", "LabelValues", "Metric", "ModelPotential", "Points"}
"""What goes into a run, and what is a table of its own."""


def test_every_public_result_shows_itself():
    found = returned_classes()
    shown = {part.__name__ for part in found if hasattr(part, "_repr_html_")}
    assert {part.__name__ for part in found} - shown <= NOT_RESULTS
    assert shown == {"Valuation", "SampledValuation", "Prediction", "PriceList", "Check", "Match",
                     "Splitting", "Curve", "Draws", "Plan", "SizeProfile", "Summary",
                     "LabelEvidence", "Audit", "Comparison", "DatabaseError"}  # fmt: skip


def test_every_class_that_shows_itself_has_html():
    def below(part):
        return {part}.union(*map(below, part.__subclasses__()))

    for part in below(NotebookDisplay) - {NotebookDisplay}:
        assert html_of.dispatch(part) is not html_of.dispatch(object), part


def test_a_notebook_falls_back_to_repr_for_what_has_no_html():
    class Other(NotebookDisplay):
        pass

    with pytest.raises(NotImplementedError, match="Other"):
        Other()._repr_html_()


# -- What is shown


def test_the_profile_and_the_summary_show_what_they_hold():
    from dshapley import profile

    B = labelled(40)
    U = ds.potential("naive_bayes", test=labelled(30, seed=1))
    found = profile.size_profile(ds.run(U, ds.Design(B, 16), B, stop=200))
    cells = Read(found._repr_html_()).cells
    assert cells[3:5] == ["1", f"{found.n_draws[0]:,}"]
    assert float(cells[5]) == pytest.approx(found.means[0].mean(), rel=5e-3, abs=1e-9)
    summary = market.summary(B)
    assert "40" in Read(summary._repr_html_()).cells


@pytest.mark.parametrize("make", [*WITH_IDS, *OTHERS])
def test_each_fragment_is_whole_and_small(make):
    text = make()._repr_html_()
    tags = Read(text).tags
    assert len(text.encode()) < MOST_BYTES
    assert "table" in tags
    assert tags.count("svg") == (make() is not PLANNED)
    assert "nan" not in re.sub(r"<[^>]*>", "", text)


def test_the_fragment_of_a_check_has_its_verdicts(checked):
    found = Read(checked._repr_html_())
    assert found.cells[0] == checked.order
    assert found.cells[2] == checked.worth
    assert "svg" in found.tags
    assert len(checked._repr_html_()) < MOST_BYTES


def test_the_ends_of_a_valuation_with_two_standard_errors():
    found = exact(12, stderr=0.011)
    cells = Read(html_of(found)).cells
    assert cells[:3] == ["id", "value", "±"]
    assert cells[3:6] == ["0", "0.300", "0.022"]
    assert cells[-3:] == ["11", "-0.100", "0.022"]
    assert cells[18] == "… 2 others …"
    assert len(cells) == 3 + 3 * 10 + 1
    assert "12 points, m = 100: 50 draws, reliability 0.99" in html_of(found)


def test_ten_points_are_all_shown_once():
    cells = Read(html_of(exact(10))).cells
    assert cells[3::3] == [str(i) for i in range(10)]


def test_zero_is_where_values_change_their_sign():
    text = html_of(exact(50))
    zero = float(re.search(r'd="M0 ([\d.]+)H', text)[1])
    line = re.findall(r'd="(M[^"]*)" stroke-width', text)[0]
    heights = [float(pair.split()[1]) for pair in line[1:].split("L")]
    assert heights == sorted(heights)
    assert heights[0] == 4
    assert heights[-1] == 106
    assert zero == pytest.approx(heights[0] + (heights[-1] - heights[0]) * 0.3 / 0.4, abs=0.2)


def test_unknown_errors_are_said():
    found = ds.estimate(draws_of(T=3))
    text = html_of(found)
    assert Read(text).cells[5] == "?"
    assert "have hardly been drawn, so the errors are not known yet" in text


def test_prices_of_each_size():
    cells = Read(html_of(price_list())).cells
    assert cells[:4] == ["id", "value", "price", "95% interval"]
    assert cells[4:6] == ["0", "0.30 ± 0.60"]
    assert cells[6:8] == ["0.300", "0.200 to 0.400"]
    assert cells[-6:] == ["20", "5.00", "4.00 to 6.00", "100", "5.00", "4.00 to 6.00"]


def test_rounding_is_not_an_error():
    """The random orders of a curve begin with the same score, but not in its last bit."""
    one = removal()
    random = np.full((3, 11), 0.8) + np.array([[0.0], [1e-16], [2e-16]])
    cells = Read(html_of(dataclasses.replace(one, random=random))).cells
    assert cells[8:10] == ["0.8", "0"]


# -- Hostile tables


@pytest.mark.parametrize("make", WITH_IDS)
def test_names_from_a_table_are_only_text(make):
    ids = [HOSTILE, *ODD][:10]
    text = make(10, ids=ids)._repr_html_()
    found = Read(text)
    assert HOSTILE in found.cells
    assert "$x$ $y$" in found.cells
    assert "mathjax_ignore" in text  # two dollars are no formula
    assert "日本語" in text or make is price_list
    assert "\u202e" not in text
    text.encode()  # without lone surrogates, which a notebook could not save


def test_terms_from_a_foreign_price_list_are_only_text():
    text = html_of(price_list(rule=HOSTILE + "x" * 10**6, m=range(1, 2000)))
    Read(text)
    assert "&lt;script&gt;" in text
    assert len(text) < MOST_BYTES


def test_a_metric_of_any_name_is_only_text():
    identity = ds.Draws.none(labelled(3), weights=np.ones(2) / 2).about.identity
    about = SimpleNamespace(identity=dataclasses.replace(identity, potential={"metric": HOSTILE}))
    found = ds.estimate(dataclasses.replace(draws_of(), about=about))
    Read(html_of(found))
    assert "&lt;script&gt;" in html_of(found)
    Read(html_of(found.draws))


# -- Large and odd results


@pytest.mark.parametrize("make", WITH_IDS)
def test_a_hundred_thousand_points_with_long_names(make):
    ids = [f'{i:06}"' + '"' * 1000 for i in range(100_000)]
    text = make(100_000, ids=ids)._repr_html_()
    Read(text)
    assert len(text.encode()) < MOST_BYTES
    assert "… 99,990 others …" in text


def test_a_hundred_thousand_bundles_draws_and_steps():
    n = 100_000
    bundles = exact(n, rows=np.full(n, 123_456))
    many = ds.Draws(
        t=np.arange(n), k=np.arange(n) % 5000 + 1, marginals=np.zeros((n, 1), np.float32),
        weights=np.ones(5000) / 5000, ids=np.arange(1), rows=np.ones(1, int),
    )  # fmt: skip
    for found in (bundles, many, removal(n)):
        text = html_of(found)
        Read(text)
        assert len(text.encode()) < MOST_BYTES


@pytest.mark.parametrize(
    "values",
    [[0.2], [0.0, 0.0], [1.0, 1.0], [-1e308, 1e308], [1e-300, -1e-300], [5.0, -3.0, np.inf]],
)
@pytest.mark.parametrize("error", [0.0, 0.1, np.nan, 1e-300])
def test_odd_values(values, error):
    n = len(values)
    found = exact(n, values=np.array(values), stderr=np.full(n, error))
    with np.errstate(all="ignore"):  # the reliability of such numbers overflows, as in `repr`
        text = html_of(found)
    Read(text)
    assert len(text) < MOST_BYTES
    assert "nan" not in "".join(re.findall(r' d="[^"]*"', text))


def test_results_with_little_in_them():
    empty = ds.Draws.none(labelled(3), weights=np.ones(2) / 2)
    alone = removal(repeats=1)
    without = dataclasses.replace(alone, random=np.empty((0, 11)))
    unknown = dataclasses.replace(matched(), distance=0.0, stderr=0.0, noise_high=0.0, gaps=())
    for found in (empty, alone, without, unknown, dataclasses.replace(matched(), noise=np.nan)):
        Read(html_of(found))
    assert "random order" not in Read(html_of(without)).cells
    assert "?" in Read(html_of(alone)).cells


# -- Pictures


def test_plot_is_the_picture_of_the_ends():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    for found in (exact(30), half_predicted(30), ds.estimate(draws_of(30))):
        ax = found.plot(n=3)
        assert len(ax.get_yticks()) == 6
        assert ax.get_xlabel() == ds.plots.extremes(found, n=3).get_xlabel()
        figure, given = pyplot.subplots()
        assert found.plot(ax=given) is given
        figure.savefig(io.BytesIO())
        pyplot.close("all")


# -- Progress


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def run_for(seconds, *, show=None, every=0.25, clock=None, expected=None):
    """A run that reports every so many seconds, one draw each."""
    clock = clock or Clock()
    with progress.progress_bar(show, clock=clock) as report:
        for done in range(1, int(seconds / every) + 1):
            clock.now += every
            if report is not None:
                report(done, 0.834, expected)


def test_a_short_run_writes_nothing_to_a_log(capsys):
    run_for(59)
    assert capsys.readouterr().err == ""


def test_a_long_run_writes_a_line_a_minute_to_a_log(capsys):
    run_for(190, expected=1000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "valuing: 240/1,000 draws, reliability 0.83, about 3:10 left",
        "valuing: 480/1,000 draws, reliability 0.83, about 2:10 left",
        "valuing: 720/1,000 draws, reliability 0.83, about 1:10 left",
    ]


def test_a_night_in_a_log_is_short_and_never_silent_for_long(capsys):
    stamps, clock = [], Clock()
    real = sys.stderr
    sys.stderr = SimpleNamespace(
        write=lambda text: stamps.append(clock.now) if text.strip() else None,
        flush=lambda: None,
        isatty=lambda: False,
    )
    try:
        run_for(10 * 3600, every=5, clock=clock)
    finally:
        sys.stderr = real
    assert 60 < len(stamps) < 150
    assert max(np.diff(stamps)) <= 605


def test_unknown_reliability_and_end_are_left_out(capsys):
    with progress.progress_bar(True) as report:
        report(3, float("nan"), None)
    assert capsys.readouterr().err == "valuing: 3 draws\n"


def test_show_false_is_silent_and_true_starts_at_once(capsys):
    run_for(200, show=False)
    assert capsys.readouterr().err == ""
    run_for(30, show=True)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_log_that_cannot_be_written_does_not_end_the_run(monkeypatch):
    def refuse(text):
        raise BrokenPipeError

    gone = SimpleNamespace(write=refuse, flush=lambda: None, isatty=lambda: False)
    monkeypatch.setattr(sys, "stderr", gone)
    run_for(200)
    monkeypatch.setattr(sys, "stderr", None)
    run_for(200)


class Kernel:
    """IPython as a kernel has it, with what it was told to show."""

    def __init__(self):
        self.shown, self.updates = [], []
        self.kernel = object()

    def get_ipython(self):
        return self

    def display(self, data, **options):
        assert options == {"raw": True, "display_id": True}
        self.shown.append(data)
        return self

    def update(self, data, *, raw):
        assert raw
        self.updates.append(data)


@pytest.fixture
def kernel(monkeypatch):
    kernel = Kernel()
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", kernel)
    return kernel


def test_a_notebook_has_one_bar_that_is_updated_in_its_place(kernel, capsys):
    run_for(20, every=0.01, expected=4000)
    assert len(kernel.shown) == 1
    assert 40 <= len(kernel.updates) <= 60  # of 2,000 reports
    bar = kernel.updates[10]["text/html"]
    assert re.search(r'<progress max="4000" value="\d+"', bar)
    assert "reliability 0.83, about 0:3" in bar
    assert kernel.updates[-1]["text/html"] == "<div>valuing finished in 20 seconds</div>"
    assert capsys.readouterr().err == ""


def test_a_short_run_leaves_nothing_in_a_notebook_unless_asked(kernel):
    run_for(0.9)
    assert not kernel.shown
    run_for(0.9, show=False)
    assert not kernel.shown
    run_for(0.9, show=True)
    assert len(kernel.shown) == 1
    assert "<progress style" in kernel.shown[0]["text/html"]  # no end is known


def test_a_run_that_is_stopped_says_so(kernel):
    clock = Clock()

    def stopped():
        with progress.progress_bar(None, clock=clock) as report:
            clock.now += 90
            report(1, 0.1, None)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert kernel.updates[-1]["text/plain"] == "valuing stopped after 90 seconds"


def test_ipython_in_a_terminal_is_not_a_notebook(kernel, capsys):
    del kernel.kernel
    run_for(70)
    assert not kernel.shown
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_terminal_has_a_bar(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    run_for(10, expected=100)
    assert "valuing" in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue()


# -- A real notebook


@pytest.mark.slow
def test_a_real_notebook(tmp_path):
    """One display that is updated, a valuation as HTML, a picture inline."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cells = [
        "%matplotlib inline\nimport time, numpy as np, dshapley as ds",
        """
X = np.random.default_rng(0).normal(size=(12, 1))
def U(S):
    time.sleep(0.003)
    return float(S.X.sum())
points = ds.Points(X)
draws = ds.run(U, ds.Design(points, m=5, seed=0), points, stop=60)
draws""",
        "valuation = ds.estimate(draws); valuation",
        "ax = valuation.plot(n=3)",
        "short = ds.run(lambda S: float(len(S)), ds.Design(points, m=5), points, stop=3)",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])

    class Client(nbclient.NotebookClient):
        updates = 0

        def process_message(self, msg, cell, cell_index):
            self.updates += msg["msg_type"] == "update_display_data"
            return super().process_message(msg, cell, cell_index)

    client = Client(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    run, valued, plotted, short = (cell["outputs"] for cell in book.cells[1:])
    assert [part["output_type"] for part in run] == ["display_data", "execute_result"]
    assert re.search(r"valuing finished in \d", run[0]["data"]["text/html"])
    assert 1 < client.updates < 30
    Read(run[1]["data"]["text/html"])
    [shown] = valued
    assert "SampledValuation" in shown["data"]["text/html"]
    assert "SampledValuation" in shown["data"]["text/plain"]
    [picture] = [part for part in plotted if part["output_type"] == "display_data"]
    assert "image/png" in picture["data"]
    assert short == []
