"""Draw the embedded sample of Adult: `python tools/adult_sample.py PATH/adult.parquet`."""

import sys
from pathlib import Path

import pandas as pd
from sklearn.model_selection import train_test_split

OUT = Path(__file__).parents[1] / "src" / "dshapley" / "data" / "adult_sample.parquet"
ROWS = 2000


def main(source: str) -> None:
    """Write a sample stratified by income; the original's '?' becomes a missing value."""
    adult = pd.read_parquet(source).drop(columns="split")
    adult["income"] = adult["income"].map({0: "<=50K", 1: ">50K"})
    _, sample = train_test_split(adult, test_size=ROWS, stratify=adult["income"], random_state=2020)
    text = {c: sample[c].astype("string") for c in sample if sample[c].dtype == "category"}
    sample = sample.assign(**text).replace("?", pd.NA).astype({"income": "string"})
    sample.reset_index(drop=True).to_parquet(OUT, compression="zstd")


if __name__ == "__main__":
    main(sys.argv[1])
