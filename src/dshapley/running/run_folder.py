"""The run folder: a manifest, a header and shards of draws. Arrays and JSON, never pickle.

    manifest.json        what the run is: every parameter, fingerprints, package versions
    header.npz           the ids of the points, their row counts and folds, the size weights
    draws/A-B.npz        draws of t from A to B: t, k, marginals, seconds and a digest

Every file is written under a temporary name, flushed to disk and renamed, so that a kill at any
moment leaves whole files only.
"""

from __future__ import annotations

import hashlib
import io
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

from dshapley.data.points import Array, Points
from dshapley.documents import FormatError, read_document, valid
from dshapley.errors import RunFolderError, warn
from dshapley.files import is_temporary, sweep, write_atomically
from dshapley.ownership import is_ours, our_code
from dshapley.sampling.draws import NO_FOLD, Draws, Folds
from dshapley.sampling.provenance import About, Identity
from dshapley.sampling.sizes import LEAST_WEIGHT

__all__ = ["RunFolder", "is_own", "load_run"]

_FORMAT = 5
_WRONG_NUMBERS = (1, 2)
"""Formats of versions that could store draws under wrong numbers after losing workers twice."""
_FLUSH_SECONDS = 1.0
_MOST_CONTROLS = 1000
_PACKAGES = ("dshapley", "numpy", "scipy", "scikit-learn", "numba", "joblib", "pandas")


class RunFolder:
    """The draws of one run on disk. Opening it checks that the folder holds this run or nothing.

    Nothing is written before the first draw is.
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
            raise RunFolderError(f"{self.folder} is not empty and holds no run: name a new folder")
        ground = self.folder
        while not os.path.lexists(ground):
            ground = ground.parent
        if not ground.is_dir():
            raise RunFolderError(f"{self.folder} cannot be a folder: {ground} is a file")
        if not os.access(ground, os.W_OK | os.X_OK):
            raise RunFolderError(f"{self.folder} cannot be written: no permission in {ground}")

    def stored(self) -> Draws:
        """The draws on disk, by t. Damaged or foreign shards are named and set aside."""
        if (self.folder / "manifest.json").exists():
            self._prepare()
        draws, bad = _read_shards(self.folder, self._digest_key, self._run)
        for path, reason in bad:
            aside = path.with_name(path.name + ".rejected")
            if os.path.lexists(aside):
                aside = path.with_name(f"{path.name}.{time.time_ns()}.rejected")
            warn(
                f"{path} {reason}; it is set aside as {aside.name} and its draws are computed again"
            )
            path.replace(aside)
        return draws

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep a draw, a row of `Draws.columns`; written now and then, at the latest by `flush`."""
        self._pending.append(row)
        now = time.monotonic()
        # Every second at first, later every 2 % of the run: hundreds of shards, not thousands,
        # and a kill costs at most that much work.
        if now - self._flushed > max(_FLUSH_SECONDS, 0.02 * (now - self._started)):
            self.flush()

    def flush(self) -> None:
        """Write all draws kept so far."""
        if not self._pending:
            return
        self._prepare()
        shard = {
            name: np.array([row[name] for row in self._pending], dtype=column.dtype)
            for name, column in self._run.columns().items()
        }
        path = self.folder / "draws" / f"{shard['t'].min():08d}-{shard['t'].max():08d}.npz"
        _write_sealed(path, shard, self._digest_key)
        self._pending.clear()
        self._flushed = time.monotonic()

    def _prepare(self) -> None:
        """See to it that the manifest and the header are there, and are this run's."""
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
        # Another process may have been first, with another run.
        _check_same_run(self.folder, _read_manifest(self.folder) or {}, self._identity)
        (self.folder / "draws").mkdir(exist_ok=True)
        sweep(self.folder)
        sweep(self.folder / "draws")
        header = self.folder / "header.npz"
        wanted = _header(self._run)
        try:
            found = _read_sealed(header, self._digest_key, _HEADER)
            if not all(np.array_equal(found[name], wanted[name]) for name in _HEADER):
                raise _BadFileError("is not this run's")
        except _BadFileError as error:
            if os.path.lexists(header):
                warn(f"{header} {error}; it is written again")
            _write_sealed(header, wanted, self._digest_key)
        self._ready = True


def load_run(folder: str | Path) -> Draws:
    """The draws of a run folder, finished or not. Reads only; damaged shards are named."""
    folder = Path(folder)
    manifest = _read_manifest(folder)
    if manifest is None:
        raise RunFolderError(f"{folder} holds no run (no manifest.json)")
    key = _identity_digest(manifest["identity"])
    try:
        header = _read_sealed(folder / "header.npz", key, _HEADER)
        _check_header(header)
    except _BadFileError as error:
        raise RunFolderError(
            f"{folder / 'header.npz'} {error}; run the same command again to mend it"
        ) from None
    about = About.read(manifest["identity"], manifest["context"])
    draws, bad = _read_shards(folder, key, _empty(header, about))
    for path, reason in bad:
        warn(f"{path} {reason}; its draws are left out")
    if len(draws) == 0:
        raise RunFolderError(f"{folder} holds no draws yet")
    return draws


def is_own(folder: str | Path) -> bool:
    """Whether this user made this run folder, and its manifest is as it was made."""
    manifest = _read_manifest(Path(folder))
    if manifest is None:
        return False
    content = {part: manifest[part] for part in ("identity", "context")}
    return is_ours(content, manifest.get("made_by", ""))


_HEADER = ("ids", "rows", "weights", "balanced", "controls", "n_folds", "folds")


def _header(run: Draws) -> dict[str, Array]:
    """What all draws of a run have in common."""
    return {
        "ids": run.ids,
        "rows": run.rows,
        "weights": run.weights,
        "balanced": np.array(run.balanced),
        "controls": np.array(-1 if run.anchor is None else run.anchor.controls.shape[1]),
        "n_folds": np.array(0 if run.folds is None else run.folds.n),
        "folds": np.empty(0, np.int64) if run.folds is None else run.folds.of,
    }


def _check_header(header: Mapping[str, Array]) -> None:
    """Refuse parts that no run has."""
    ids, rows, weights = header["ids"], header["rows"], header["weights"]
    if not (
        ids.ndim == rows.ndim == weights.ndim == 1
        and len(ids) == len(rows) > 0
        and _are_names(ids)
        and rows.dtype == np.int64
        and (rows > 0).all()
        and len(weights) > 0
        and _are_weights(weights)
        and all(header[name].shape == () for name in _NUMBERS)
        and all(header[name].dtype.kind in "biu" for name in _NUMBERS)
        and -1 <= header["controls"] <= _MOST_CONTROLS
        and _are_folds(header["folds"], int(header["n_folds"]), len(ids))
    ):
        raise _BadFileError("is damaged (its parts do not fit together)")


_NUMBERS = ("balanced", "controls", "n_folds")


def _are_folds(folds: Array, n: int, n_points: int) -> bool:
    """Whether each point has a fold, or none has where there are none."""
    if folds.dtype != np.int64 or folds.ndim != 1:
        return False
    if n == 0:
        return len(folds) == 0
    return n >= 2 and len(folds) == n_points and bool(((folds >= NO_FOLD) & (folds < n)).all())


def _are_weights(weights: Array) -> bool:
    """Whether these are probabilities by which a marginal can be divided."""
    return bool(
        weights.ndim == 1
        and weights.dtype == np.float64
        and (weights >= LEAST_WEIGHT).all()
        and abs(weights.sum() - 1) < 1e-6
    )


def _are_names(ids: Array) -> bool:
    if ids.dtype.kind != "U":
        return ids.dtype.kind in "iu"
    codes = np.ascontiguousarray(ids).view(np.uint32)
    surrogates = (codes >= 0xD800) & (codes <= 0xDFFF)
    return not bool((surrogates | (codes > 0x10FFFF)).any())


def _empty(header: Mapping[str, Array], about: About) -> Draws:
    run = Draws.none(
        Points(np.empty((len(header["ids"]), 0)), ids=header["ids"]),
        weights=header["weights"],
        balanced=bool(header["balanced"]),
        controls=None if header["controls"] < 0 else int(header["controls"]),
        folds=Folds(int(header["n_folds"]), header["folds"]) if header["n_folds"] else None,
        about=about,
    )
    return replace(run, rows=header["rows"])


def _check_shard(shard: Mapping[str, Array], run: Draws) -> None:
    """Refuse columns of another shape or type than the run's, and sizes that it never draws."""
    n = len(shard["t"]) if shard["t"].ndim else 0
    fits = n > 0 and all(
        shard[name].dtype == column.dtype and shard[name].shape == (n, *column.shape[1:])
        for name, column in run.columns().items()
    )
    if not (
        fits
        and (np.diff(shard["t"]) > 0).all()
        and shard["t"][0] >= 0
        and (shard["k"] >= 1).all()
        and (shard["k"] <= run.m).all()
        and _are_marginals(shard["marginals"], shard["t"], run)
        and all(_are_moderate(shard[name]) for name in {"reference", "controls"} & set(shard))
        and ("seconds" not in shard or (shard["seconds"] >= 0).all())
        and ("chain" not in shard or _are_moderate(shard["chain"][~np.isnan(shard["chain"])]))
    ):
        raise _BadFileError("is damaged (it does not fit the run)")


def _are_marginals(marginals: Array, t: Array, run: Draws) -> bool:
    """Whether there is a number for each point that a draw values, and none for the others."""
    if run.folds is None:
        return bool(np.isfinite(marginals).all())
    valued = run.folds.valued(t)
    return bool(np.isfinite(marginals[valued]).all() and np.isnan(marginals[~valued]).all())


def _are_moderate(numbers: Array) -> bool:
    """Whether all are numbers, and none so large that sums of squares would be infinite."""
    return bool((np.abs(numbers) <= 1e100).all())


class _BadFileError(Exception):
    pass


def _write_sealed(
    path: Path, parts: Mapping[str, Array], key: bytes, *, replace: bool = True
) -> None:
    """Arrays in one file, with the run they belong to and a digest of them."""
    seal = {"run": np.frombuffer(key, np.uint8), "digest": _digest(parts, key)}
    write_atomically(
        path, lambda file: np.savez(file, allow_pickle=False, **parts, **seal), replace=replace
    )


def _read_sealed(path: Path, key: bytes, names: tuple[str, ...]) -> dict[str, Array]:
    if path.exists() and not path.is_file():
        raise _BadFileError("is not a plain file")
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            if any(part.compress_type for part in file.zip.infolist()):
                raise ValueError("parts are compressed, which dshapley never does")
            found = {name: file[name] for name in (*names, "run", "digest")}
            if not all(isinstance(part, np.ndarray) for part in found.values()):
                raise ValueError("a part is not an array")
    except FileNotFoundError:
        raise _BadFileError("is not there") from None
    except Exception as error:  # a damaged zip file can raise nearly anything
        raise _BadFileError(f"is damaged ({error})") from None
    run, digest = found.pop("run"), found.pop("digest")
    if run.tobytes() != key:
        raise _BadFileError("belongs to another run")
    if digest.tobytes() != _digest(found, key).tobytes():
        raise _BadFileError("is damaged (its digest does not match)")
    return found


def _digest(parts: Mapping[str, Array], key: bytes) -> Array:
    digest = hashlib.blake2b(key, digest_size=16)
    for name in sorted(parts):
        part = parts[name]
        digest.update(f"{name}{part.dtype.str}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


def _read_shards(folder: Path, key: bytes, run: Draws) -> tuple[Draws, list[tuple[Path, str]]]:
    names = tuple(run.columns())
    shards, bad = [run.columns()], []
    for path in sorted((folder / "draws").glob("*.npz")):
        try:
            shard = _read_sealed(path, key, names)
            _check_shard(shard, run)
            shards.append(shard)
        except _BadFileError as error:
            bad.append((path, str(error)))
    columns = {name: np.concatenate([shard[name] for shard in shards]) for name in names}
    # Two processes may have computed the same draw; it is the same, so one copy is kept.
    _, first = np.unique(columns["t"], return_index=True)
    return run.of({name: column[first] for name, column in columns.items()}), bad


class _Manifest(msgspec.Struct):
    """What manifest.json must hold."""

    format: int
    created: str
    identity: dict[str, Any]
    context: dict[str, Any]
    versions: dict[str, str]
    made_by: str = ""
    """See `dshapley.ownership`."""


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    path = folder / "manifest.json"
    if not os.path.lexists(path):
        return None
    try:
        manifest = read_document(path, _Manifest, format_number=_FORMAT)
        About.read(manifest["identity"], manifest["context"])
    except FormatError as error:
        why = f"this dshapley reads {_FORMAT}"
        if error.number in _WRONG_NUMBERS and error.number is not True:
            why = (
                "its version could store draws under wrong numbers when workers were lost, which "
                "cannot be seen afterwards: run it again in a new folder"
            )
        raise RunFolderError(f"{path} has {error}; {why}") from None
    except ValueError as error:
        raise RunFolderError(f"{path} is damaged ({error}): name a new folder") from None
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
            "Name a new folder, or repeat the first call as it was"
        )


def _warn_of_versions(folder: Path, manifest: dict[str, Any]) -> None:
    now = _versions()
    old = manifest["versions"]
    changed = [f"{p} {old.get(p)} -> {v}" for p, v in now.items() if old.get(p) != v]
    if changed:
        warn(
            f"{folder} was begun with other versions ({', '.join(changed)}): its new draws may "
            "differ from the old in the last digits"
        )


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "machine": platform.machine()}
    return versions | {name: metadata.version(name) for name in _PACKAGES}


def _identity_digest(identity: Mapping[str, Any]) -> bytes:
    text = json.dumps(identity, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _jsonable(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping as it will be read back, so that what is compared is what was written."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(mapping), default=str))
    return plain


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
