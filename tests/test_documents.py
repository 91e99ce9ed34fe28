"""Files from elsewhere, mutated: read as they are, or refused in one line."""

import copy
import json
import os
import random
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import dshapley as ds
from dshapley.data.datasets import adult_sample
from dshapley.documents import read_document
from dshapley.market import load_prices, load_summary, match, price_list
from dshapley.market.summaries import table_summary
from dshapley.reporting.market import match_lines, print_prices
from dshapley.reporting.text import print_valuation
from dshapley.running.source_tables import run_tables
from test_cli import call

EXAMPLES = int(os.environ.get("DSHAPLEY_FUZZ", "150"))

STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=8),
    st.just([]),
    st.just({}),
    st.just([[["x"]]]),
    st.just({"a": {"b": None}}),
    st.sampled_from(["\ud800", "a\0b", "../../etc/passwd", "1e999", -1, 0, 1e308, 2**63]),
)


def places(document, path=()):
    """Each place in a document: the keys that lead there."""
    yield path
    items = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for key, part in items:
        yield from places(part, (*path, key))


def mutated(document, rng, strange):
    """The document with one place gone, replaced, or moved elsewhere."""
    document = copy.deepcopy(document)
    path = rng.choice(list(places(document))[1:])
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    how = rng.randrange(4)
    if how == 0:
        del parent[path[-1]]
    elif how == 1 and isinstance(parent, dict):
        parent[rng.choice(["", "format", "extra"])] = strange
    else:
        parent[path[-1]] = strange
    return document


def spoilt(text, rng):
    """The text with a byte changed, a piece cut or a key doubled."""
    how, at = rng.randrange(3), rng.randrange(len(text))
    if how == 0:
        return text[:at] + chr(rng.randrange(32, 127)) + text[at + 1 :]
    if how == 1:
        return text[:at]
    return text.replace("{", '{"format": 1, ', 1)


class Kept:
    """A real file of each kind, and what a person does with it."""

    def __init__(self, folder):
        table = adult_sample().head(120)
        y = table["income"].to_numpy()
        X = table[["age", "hours_per_week"]].to_numpy(float)
        self.folder = folder
        valuation = ds.value(
            X, y, model=LogisticRegression(), m=10, stop=80, sampling=ds.Sampling(balanced=True),
            store=folder / "run",
        )  # fmt: skip
        price_list(valuation, rate=10.0, m=[5, 10]).save(folder / "prices")
        table.to_csv(folder / "table.csv", index=False)
        asked = ["value", folder / "table.csv", "--target", "income", "--model", "naive_bayes",
                 "--m", 10, "--draws", 20, "--jobs", 1]  # fmt: skip
        call(*asked, "--out", folder / "question")
        self.summary = table_summary(table, target="income")
        self.summary.save(folder / "summary.json")

    def use(self, kind):
        from rich.console import Console

        with open(os.devnull, "w") as null:  # noqa: PTH123
            console = Console(file=null)
            if kind == "run":
                print_valuation(console, ds.estimate(ds.load_run(self.folder / "run")), top=3)
            elif kind == "question":
                about = ds.load_run(self.folder / kind).about
                run_tables(self.folder / kind, about, source=self.folder).valued()
            elif kind == "prices":
                print_prices(console, load_prices(self.folder / "prices"), top=3)
            else:
                match_lines(match(load_summary(self.folder / "summary.json"), self.summary))


FILES = {
    "run": "run/manifest.json",
    "question": "question/manifest.json",
    "prices": "prices/terms.json",
    "summary": "summary.json",
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "dshapley.running.run_folder._FLUSH_SECONDS", float("inf")
        )  # one shard, however slow
        return Kept(tmp_path_factory.mktemp("kept"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_mutated_files_are_read_or_refused_in_one_line(kept, kind):
    path = kept.folder / FILES[kind]
    whole = path.read_text()
    refused = []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=EXAMPLES <= 150,
        suppress_health_check=list(HealthCheck),
    )
    @given(seed=st.integers(0, 2**32), strange=STRANGE)
    def attack(seed, strange):
        rng = random.Random(seed)
        if rng.random() < 0.7:
            text = json.dumps(mutated(json.loads(whole), rng, strange))
        else:
            text = spoilt(whole, rng)
        path.write_text(text)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ds.errors.DShapleyWarning)
                kept.use(kind)
        except ds.DShapleyError as error:
            refused.append(str(error))

    try:
        attack()
    finally:
        path.write_text(whole)
    kept.use(kind)
    assert len(refused) > EXAMPLES / 4
    assert not any("\n" in message for message in refused)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": 1, "a": 1, "a": 2}', "the key 'a' occurs twice"),
        ('{"format": 1, "x": {"b": 1, "b": 1}}', "the key 'b' occurs twice"),
        ('{"format": 1, "a": NaN}', "NaN is not a number"),
        ('{"format": 1, "a": 1e999}', "too large"),
        ('{"format": 1, "a": "\\ud800"}', "surrogates"),
        ("[" * 100_000, "nested too deeply"),
        ("[1]", "not a JSON object"),
        ('{"format": 2}', "format 2"),
        ('{"format": true}', "format True"),
        ('{"format": 1, "a": ' + "9" * 5000 + "}", "digits"),
        ("\xff", "Expecting value"),
    ],
)
def test_what_json_lets_pass(tmp_path, text, message):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_document(path, dict, format_number=1)


@pytest.mark.parametrize("kind", FILES)
def test_a_pipe_in_the_place_of_a_file_does_not_hang(kept, kind):
    path = kept.folder / FILES[kind]
    whole = path.read_text()
    path.unlink()
    os.mkfifo(path)
    try:
        with pytest.raises(ds.InputError, match="not a plain file"):
            kept.use(kind)
    finally:
        path.unlink()
        path.write_text(whole)


def test_parts_that_no_run_has_are_refused_though_they_are_sealed(kept):
    """A maker of false folders can seal them: what is inside is checked all the same."""
    from dshapley.running.run_folder import _identity_digest, _read_manifest
    from dshapley.sampling.draws_file import HEADER
    from dshapley.sealed import read_sealed, write_sealed

    run = kept.folder / "run"
    key = _identity_digest(_read_manifest(run)["identity"])
    header = read_sealed(run / "header.npz", key, HEADER)
    for change in (
        {"weights": header["weights"] * 2},
        {"weights": np.array(["a"] * 10)},
        {"weights": np.array([1.0] + [0.0] * 9)},
        {"weights": np.full(10, np.nan)},
        {"weights": header["weights"] + 0j},
        {"weights": np.array(1.0)},
        {"ids": np.full(120, 0x110000, np.uint32).view("U1")},
        {"ids": np.full(120, 0xD800, np.uint32).view("U1")},
        {"n_label_controls": np.array(2**62)},
        {"rows": header["rows"][:3]},
        {"rows": -header["rows"]},
        {"ids": header["ids"].reshape(-1, 2)},
        {"balanced": np.array("x")},
        {"n_label_controls": np.ones(3)},
        {"n_folds": np.array(1)},
        {"n_folds": np.array(0)},
        {"folds": np.zeros(2, np.int64)},
        {"folds": header["folds"].astype(float)},
        {"folds": np.full(120, 9)},
        {"asked": np.array(1)},
        {"labels": np.zeros((1, 1))},
        {"labels": np.array([1j])},
        {"codes": header["codes"] + 5},
        {"codes": header["codes"][:3]},
    ):
        write_sealed(run / "header.npz", {**header, **change}, key)
        with pytest.raises(ds.RunFolderError, match="do not fit together"):
            ds.load_run(run)
    write_sealed(run / "header.npz", header, key)
    shard = min((run / "draws").glob("*.npz"))
    columns = read_sealed(shard, key)
    for change in (
        {"k": columns["k"] + 100},
        {"t": columns["t"][::-1]},
        {"marginals": columns["marginals"].astype(float)},
        {"marginals": np.nan_to_num(columns["marginals"])},
        {"marginals": columns["marginals"][:, :5]},
        {"seconds": columns["seconds"][:1]},
        {"seconds": columns["seconds"] * np.nan},
        {"evidence.t": columns["evidence.t"] + 1000},
        {"evidence.t": columns["evidence.t"][::-1]},
        {"evidence.answers": columns["evidence.answers"] + 2},
        {"evidence.answers": columns["evidence.answers"][:, :3]},
        {"evidence.answers": columns["evidence.answers"][..., :1]},
    ):
        write_sealed(shard, {**columns, **change}, key)
        with (
            pytest.warns(ds.errors.DShapleyWarning, match="does not fit the run"),
            pytest.raises(ds.RunFolderError, match="no draws yet"),
        ):
            ds.load_run(run)
    write_sealed(shard, columns, key)
    assert len(ds.load_run(run)) == 80


def test_parts_that_are_not_arrays(kept):
    import zipfile

    header = kept.folder / "run" / "header.npz"
    whole = header.read_bytes()
    for name in ("ids", "run", "digest"):
        with zipfile.ZipFile(header) as old:
            parts = {part: old.read(part) for part in old.namelist()}
        parts[f"{name}.npy"] = b"not an array"
        with zipfile.ZipFile(header, "w") as new:
            for part, content in parts.items():
                new.writestr(part, content)
        with pytest.raises(ds.RunFolderError, match="is damaged"):
            ds.load_run(kept.folder / "run")
        header.write_bytes(whole)


def test_a_sealed_header_that_is_not_this_runs_is_written_anew(tmp_path, database, offered):
    from dshapley.running.run_folder import _identity_digest, _read_manifest
    from dshapley.sampling.draws_file import HEADER
    from dshapley.sealed import read_sealed, write_sealed

    asked = ds.MeanPotential(database), ds.Design(database, m=8), offered
    ds.run(*asked, stop=5, store=tmp_path)
    key = _identity_digest(_read_manifest(tmp_path)["identity"])
    header = read_sealed(tmp_path / "header.npz", key, HEADER)
    write_sealed(tmp_path / "header.npz", {**header, "rows": header["rows"] + 1}, key)
    with pytest.warns(
        ds.errors.DShapleyWarning, match="belongs to another run: it is written again"
    ):
        ds.run(*asked, stop=6, store=tmp_path)
    assert ds.load_run(tmp_path).rows.tolist() == [1] * len(offered)


@pytest.mark.parametrize("number", ["2", 1.5, None, 0])
def test_a_hostile_number_of_rows(number):
    from sklearn.naive_bayes import GaussianNB

    with pytest.raises(ds.InputError, match="it must be a whole number, 1 or more"):
        ds.potential(GaussianNB(), test=([[0.0], [1.0]], [0, 1]), min_rows=number)


def test_a_summary_of_one_part_or_of_text_as_numbers(kept):
    path = kept.folder / "summary.json"
    whole = path.read_text()
    raw = json.loads(whole)
    single = {**raw, "means": [[row[0]] for row in raw["means"]], "noise": {}}
    path.write_text(json.dumps(single))
    try:
        with pytest.raises(ds.InputError, match="contradict each other"):
            load_summary(path)
    finally:
        path.write_text(whole)
    people = adult_sample().head(120)
    with pytest.raises(ds.InputError, match="is text, but regression needs numbers"):
        table_summary(people, target="education", task="regression")
