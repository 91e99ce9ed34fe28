"""Where Chromium is. Run as a script, it installs Chromium where apt-get can."""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")
VARIABLE = "DSHAPLEY_CHROMIUM"
MISSING = (
    f"Chromium is missing: install it (Debian: sudo apt-get install chromium), or name yours with "
    f"{VARIABLE}=/path/to/chromium."
)


def chromium() -> str | None:
    """The path of the browser, or None."""
    return next(filter(None, map(shutil.which, (os.environ.get(VARIABLE, ""), *NAMES))), None)


def installed() -> bool:
    """Install Chromium by apt-get; whether that worked."""
    apt = shutil.which("apt-get")
    if apt is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    words = [apt, "install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
    subprocess.run([apt, "update"], check=False, **quiet)
    subprocess.run(
        words, check=False, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, **quiet
    )
    return chromium() is not None


if __name__ == "__main__":
    if os.environ.get(VARIABLE) and not shutil.which(os.environ[VARIABLE]):
        print(f"{VARIABLE}={os.environ[VARIABLE]} is not a program.", file=sys.stderr)
        sys.exit(2)
    if chromium() is None and not installed():
        print(MISSING, file=sys.stderr)
        sys.exit(2)
