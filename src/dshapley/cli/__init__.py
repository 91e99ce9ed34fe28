"""The command `dshapley`: `start` is its door, `app` and `market` its commands."""
