"""Keep tables between draws: those that depend only on the test set, the database or Z."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from dshapley.data.points import Array

__all__ = ["Kept", "kept"]


class Kept:
    """A cache of tables by name, which discards the least recently used beyond a limit of bytes.

    There is one for each process, and threads may share it. Names contain `Points.key`, which
    identifies the contents of the points, so that a worker finds its tables although it gets new
    Points objects with each draw.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._tables: dict[Hashable, tuple[Array, ...]] = {}
        self.lock = threading.RLock()

    def get(
        self, name: Hashable, make: Callable[[], tuple[Array, ...]], *, anew: bool = False
    ) -> tuple[Array, ...]:
        """The table of this name. `make` computes it if it is missing, or if `anew` is true."""
        with self.lock:
            tables = self._tables.pop(name, None)
            if tables is None or anew:
                tables = make()
            # dicts keep insertion order, so the last table is the one used last
            self._tables[name] = tables
            while len(self._tables) > 1 and self._bytes() > self._most:
                del self._tables[next(iter(self._tables))]
            return tables

    def _bytes(self) -> int:
        return sum(array.nbytes for tables in self._tables.values() for array in tables)


kept = Kept(384 << 20)
"""The cache of this process."""
