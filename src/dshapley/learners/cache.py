"""Tables that outlive a draw: what depends on the test set, the database or Z alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from dshapley.data.points import Array

__all__ = ["Kept", "kept"]


class Kept:
    """Tables that outlive a draw, by name: the ones used last, up to so many bytes in all.

    One for each process, and safe for its threads. Names are made of `Points.key`, which says
    what is in the points, so that a worker that gets them anew for each draw finds its tables.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._tables: dict[Hashable, tuple[Array, ...]] = {}
        self.lock = threading.RLock()

    def get(
        self, name: Hashable, make: Callable[[], tuple[Array, ...]], *, anew: bool = False
    ) -> tuple[Array, ...]:
        """The table of this name, made if it is not there, or if it is to be made `anew`."""
        with self.lock:
            tables = self._tables.pop(name, None)
            if tables is None or anew:
                tables = make()
            self._tables[name] = tables  # the last is the latest
            while len(self._tables) > 1 and self._bytes() > self._most:
                del self._tables[next(iter(self._tables))]
            return tables

    def _bytes(self) -> int:
        return sum(array.nbytes for tables in self._tables.values() for array in tables)


kept = Kept(384 << 20)
"""The tables of this process."""
