"""Real data to begin with."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["adult_sample"]


def adult_sample() -> pd.DataFrame:
    """2,000 rows of the Adult census table, stratified by the target `income`.

    B. Becker and R. Kohavi (1996), UCI Machine Learning Repository, CC BY 4.0.

    >>> adult_sample()["income"].value_counts().to_dict()
    {'<=50K': 1521, '>50K': 479}
    """
    import pandas as pd

    with resources.as_file(resources.files("dshapley") / "data" / "adult_sample.parquet") as path:
        return pd.read_parquet(path)
