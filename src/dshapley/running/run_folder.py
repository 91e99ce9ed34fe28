"""The run folder: a manifest, a header and shards of draws, as arrays and JSON, never pickle.

    manifest.json        what the run is: every parameter, fingerprints, package versions
    header.npz           the ids of the points, their row counts and folds, the size weights
    draws/A-B.npz        draws of t from A to B: t, k, marginals, seconds, control variates, what
                         models say of unseen points, the influence of test rows, digest

Every file is written under a temporary name, flushed to disk and renamed, so a kill at any moment
leaves only whole files.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dshapley.data.points import Array
from dshapley.documents import FormatError, read_document, valid
from dshapley.errors import RunFolderError, warn
from dshapley.files import is_temporary, sweep, write_atomically
from dshapley.ownership import is_ours, our_code
from dshapley.running.metric_folders import runs_in
from dshapley.sampling.draws import Draws
from dshapley.sampling.draws_file import (
    EVIDENCE,
    HEADER,
    OF_TEST,
    check_columns,
    check_header,
    empty_run,
    evidence_of,
    evidence_parts,
    header_of,
    test_influence_of,
    test_parts,
)
from dshapley.sampling.evidence import Evidence
from dshapley.sampling.provenance import About, Identity
from dshapley.sampling.test_influence import TestInfluence
from dshapley.sealed import BadFileError, read_sealed, write_sealed

__all__ = ["RunFolder", "is_own", "load_run", "versions_of"]

_FORMAT = 9
_WRONG_NUMBERS = (1, 2)
"""The formats of versions that could store draws under wrong numbers after losing workers."""
_FLUSH_SECONDS = 1.0
_PACKAGES = ("dshapley", "numpy", "scipy", "scikit-learn", "numba", "joblib", "pandas")


class RunFolder:
    """The draws of one run on disk. Creating it checks that the folder is empty or holds this run.

    Nothing is written before the first draw.
    """

    def __init__(self, folder: str | Path, run: Draws) -> None:
        self.folder = Path(folder)
        self._run = run
        self._identity = _jsonable(asdict(run.about.identity))
        self._digest_key = _identity_digest(self._identity)
        self._pending: list[Mapping[str, Any]] = []
        self._started = self._flushed = time.monotonic()
        self._ready = False
        self._check_folder()

    def _check_folder(self) -> None:
        manifest = _read_manifest(self.folder)
        if manifest is not None:
            _check_same_run(self.folder, manifest, self._identity)
            _warn_of_versions(self.folder, manifest)
        elif self.folder.is_dir() and not all(map(is_temporary, self.folder.iterdir())):
            raise RunFolderError(
                f"{self.folder} is not empty and holds no run: give a new folder"
                f"{_or_one_of(self.folder)}"
            )
        ground = self.folder
        while not os.path.lexists(ground):
            ground = ground.parent
        if not ground.is_dir():
            raise RunFolderError(
                f"{self.folder} cannot be a folder, because {ground} is a file: give another folder"
            )
        if not os.access(ground, os.W_OK | os.X_OK):
            raise RunFolderError(
                f"{self.folder} cannot be written: you have no permission in {ground}"
            )

    def stored(self) -> Draws:
        """The draws on disk, by t. Damaged or foreign shards are set aside with a warning."""
        if (self.folder / "manifest.json").exists():
            self._prepare()
        draws, bad = _read_shards(self.folder, self._digest_key, self._run)
        for path, reason in bad:
            aside = path.with_name(path.name + ".rejected")
            if os.path.lexists(aside):
                aside = path.with_name(f"{path.name}.{time.time_ns()}.rejected")
            warn(f"{path} {reason}: it is renamed to {aside.name} and its draws are computed again")
            path.replace(aside)
        return draws

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a draw, a row of `Draws.columns`; it is written later, at the latest by `flush`."""
        self._pending.append(row)
        now = time.monotonic()
        # Draws are written every second at first, later every 2 % of the run's time. This makes
        # hundreds of shards instead of thousands, and a kill loses little work.
        if now - self._flushed > max(_FLUSH_SECONDS, 0.02 * (now - self._started)):
            self.flush()

    def flush(self) -> None:
        """Write all draws added so far."""
        if not self._pending:
            return
        self._prepare()
        shard = {
            name: np.array([row[name] for row in self._pending], dtype=column.dtype)
            for name, column in self._run.columns().items()
        }
        shard |= self._evidence() | self._of_test_rows()
        path = self.folder / "draws" / f"{shard['t'].min():08d}-{shard['t'].max():08d}.npz"
        write_sealed(path, shard, self._digest_key)
        self._pending.clear()
        self._flushed = time.monotonic()

    def _evidence(self) -> dict[str, Array]:
        """The evidence of the pending draws, for their shard."""
        like = self._run.evidence
        if like is None:
            return {}
        return evidence_parts(replace(like, **self._asked(EVIDENCE, like)))

    def _of_test_rows(self) -> dict[str, Array]:
        """The influence of the test rows in the pending draws, for their shard."""
        like = self._run.test_influence
        return {} if like is None else test_parts(TestInfluence(**self._asked(OF_TEST, like)))

    def _asked(self, names: tuple[str, ...], like: Evidence | TestInfluence) -> dict[str, Array]:
        """The columns of the pending draws that have them, of the types and shapes of `like`."""
        asked = [row for row in self._pending if row.get(names[-1]) is not None]
        empty = {name: getattr(like, name) for name in names}
        return {
            name: np.array([row[name] for row in asked], part.dtype).reshape(-1, *part.shape[1:])
            if asked
            else part
            for name, part in empty.items()
        }

    def _prepare(self) -> None:
        """Write the manifest and the header, or check that those on disk are this run's."""
        if self._ready:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "manifest.json"
        if not path.exists():
            context = _jsonable(asdict(self._run.about.context))
            content = {"identity": self._identity, "context": context}
            manifest = {
                "format": _FORMAT,
                "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                **content,
                "versions": _versions(),
                "made_by": our_code(content),
            }
            text = json.dumps(manifest, indent=1) + "\n"
            write_atomically(path, lambda f: f.write(text.encode()), replace=False)
        # Another process may have written the manifest of another run in the meantime.
        _check_same_run(self.folder, _read_manifest(self.folder) or {}, self._identity)
        (self.folder / "draws").mkdir(exist_ok=True)
        sweep(self.folder)
        sweep(self.folder / "draws")
        header = self.folder / "header.npz"
        wanted = header_of(self._run)
        try:
            found = read_sealed(header, self._digest_key, HEADER)
            if not all(np.array_equal(found[name], wanted[name]) for name in HEADER):
                raise BadFileError("belongs to another run")
        except BadFileError as error:
            if os.path.lexists(header):
                warn(f"{header} {error}: it is written again")
            write_sealed(header, wanted, self._digest_key)
        self._ready = True


def load_run(folder: str | Path) -> Draws:
    """The draws of a run folder, finished or not. Damaged shards are left out with a warning.

    Nothing in the folder is changed.
    """
    folder = Path(folder)
    manifest = _read_manifest(folder)
    if manifest is None:
        raise RunFolderError(
            f"{folder} holds no run, because it has no manifest.json: give a run folder"
            f"{_or_one_of(folder)}"
        )
    key = _identity_digest(manifest["identity"])
    try:
        header = read_sealed(folder / "header.npz", key, HEADER)
        check_header(header)
    except BadFileError as error:
        raise RunFolderError(
            f"{folder / 'header.npz'} {error}: run the same command again to repair it"
        ) from None
    about = About.read(manifest["identity"], manifest["context"])
    draws, bad = _read_shards(folder, key, empty_run(header, about))
    for path, reason in bad:
        warn(f"{path} {reason}: its draws are left out")
    if len(draws) == 0:
        raise RunFolderError(f"{folder} holds no draws yet: run the same command again to resume")
    return draws


def _or_one_of(folder: Path) -> str:
    """A hint at the run folders in a folder that a run with several metrics has made."""
    inside = ", ".join(str(run) for run in runs_in(folder)[:5])
    return f", such as one of those in it ({inside})" if inside else ""


def versions_of(folder: str | Path) -> dict[str, str]:
    """The versions of Python and of the packages that the run was begun with, and when."""
    manifest = _read_manifest(Path(folder)) or {}
    return {"begun": manifest["created"], **manifest["versions"]} if manifest else {}


def is_own(folder: str | Path) -> bool:
    """Whether this user made this run folder, and its manifest is unchanged."""
    manifest = _read_manifest(Path(folder))
    if manifest is None:
        return False
    content = {part: manifest[part] for part in ("identity", "context")}
    return is_ours(content, manifest.get("made_by", ""))


def _read_shards(folder: Path, key: bytes, run: Draws) -> tuple[Draws, list[tuple[Path, str]]]:
    names = tuple(run.columns())
    asked = () if run.evidence is None else tuple(evidence_parts(run.evidence))
    if run.test_influence is not None:
        asked += tuple(test_parts(run.test_influence))
    shards, bad = [run.columns()], []
    found = [] if run.evidence is None else [run.evidence]
    of_test = [] if run.test_influence is None else [run.test_influence]
    for path in sorted((folder / "draws").glob("*.npz")):
        try:
            shard = read_sealed(path, key, (*names, *asked))
            check_columns(shard, run)
            answers = [evidence_of(shard, run)] if found else []
            moved = [test_influence_of(shard, run)] if of_test else []
            found += answers
            of_test += moved
            shards.append(shard)
        except BadFileError as error:
            bad.append((path, str(error)))
    columns = {name: np.concatenate([shard[name] for shard in shards]) for name in names}
    # Two processes may have computed the same draw; the results are equal, so one is kept.
    _, first = np.unique(columns["t"], return_index=True)
    draws = run.of({name: column[first] for name, column in columns.items()})
    if found:
        draws = replace(draws, evidence=_joined(found))
    return replace(draws, test_influence=_all_moved(of_test)) if of_test else draws, bad


def _joined(parts: list[Evidence]) -> Evidence:
    """The evidence of all shards, by t. Answers that two shards have are equal, so one is kept."""
    _, first = np.unique(np.concatenate([part.t for part in parts]), return_index=True)
    joined = {name: np.concatenate([getattr(p, name) for p in parts])[first] for name in EVIDENCE}
    return replace(parts[0], **joined)


def _all_moved(parts: list[TestInfluence]) -> TestInfluence:
    """The influence of the test rows in all shards, by t. Equal draws are kept once."""
    _, first = np.unique(np.concatenate([part.t for part in parts]), return_index=True)
    return TestInfluence(
        **{name: np.concatenate([getattr(p, name) for p in parts])[first] for name in OF_TEST}
    )


class _Manifest(msgspec.Struct):
    """The schema of manifest.json."""

    format: int
    created: str
    identity: dict[str, Any]
    context: dict[str, Any]
    versions: dict[str, str]
    made_by: str = ""
    """The code of `dshapley.ownership`."""


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    path = folder / "manifest.json"
    if not os.path.lexists(path):
        return None
    try:
        manifest = read_document(path, _Manifest, format_number=_FORMAT)
        About.read(manifest["identity"], manifest["context"])
    except FormatError as error:
        why = f"this dshapley reads {_FORMAT}: run it again in a new folder"
        if error.number in _WRONG_NUMBERS and error.number is not True:
            why = (
                "its version could store draws under wrong numbers when workers were lost, which "
                "cannot be detected: run it again in a new folder"
            )
        raise RunFolderError(f"{path} has {error}; {why}") from None
    except ValueError as error:
        raise RunFolderError(f"{path} is damaged ({error}): give a new folder") from None
    return manifest


def _check_same_run(folder: Path, manifest: dict[str, Any], identity: dict[str, Any]) -> None:
    old, new = (valid(part, Identity).named for part in (manifest["identity"], identity))
    changes = [
        f"{name} was {_short(old.get(name, 'not set'))}, is {_short(new.get(name, 'not set'))}"
        for name in dict.fromkeys([*old, *new])
        if name not in old or name not in new or old[name] != new[name]
    ]
    if changes:
        more = f" (and {len(changes) - 4} more)" if len(changes) > 4 else ""
        raise RunFolderError(
            f"{folder} holds another run: {'; '.join(changes[:4])}{more}. "
            "Give a new folder, or repeat the first call without changes"
        )


def _warn_of_versions(folder: Path, manifest: dict[str, Any]) -> None:
    now = _versions()
    old = manifest["versions"]
    changed = [f"{p} {old.get(p)} -> {v}" for p, v in now.items() if old.get(p) != v]
    if changed:
        warn(
            f"{folder} was started with other versions ({', '.join(changed)}): new draws may "
            "differ from the old ones in the last digits"
        )


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "machine": platform.machine()}
    return versions | {name: metadata.version(name) for name in _PACKAGES}


def _identity_digest(identity: Mapping[str, Any]) -> bytes:
    text = json.dumps(identity, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _jsonable(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping as it is read back from JSON, so that comparisons see what was written."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(mapping), default=str))
    return plain


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
