"""Functions that pass all their options on to another function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

__all__ = ["with_options_of"]

P = ParamSpec("P")
R = TypeVar("R")


def with_options_of(
    other: Callable[P, Any],
) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Show a function of `**options` with the signature of the function that it calls.

    >>> def draws(*, n: int = 3) -> list: ...
    >>> @with_options_of(draws)
    ... def values(**options): ...
    >>> str(inspect.signature(values).parameters["n"])
    "n: 'int' = 3"
    """

    def with_options(function: Callable[..., R]) -> Callable[P, R]:
        returned = inspect.signature(function).return_annotation
        signature = inspect.signature(other).replace(return_annotation=returned)
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return with_options
