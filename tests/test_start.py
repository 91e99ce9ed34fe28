"""Signals, streams and exit codes of the command, as a shell sees them."""

import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

import dshapley as ds
from dshapley.cli.start import run_command
from dshapley.data.datasets import adult_sample

pytestmark = pytest.mark.slow

QUICK = ["--target", "income", "--model", "naive_bayes", "--m", "20", "--no-report"]
ENDLESS = [*QUICK, "--draws", "1000000", "--jobs", "2"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "adult.csv"
    adult_sample().head(120).assign(name=lambda t: [f"Zoë {i}" for i in t.index]).to_csv(
        path, index=False
    )
    return path


def program(*args):
    return [sys.executable, "-m", "dshapley", *map(str, args)]


def started(*args, **options):
    return subprocess.Popen(
        program(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def wait_for(condition, seconds=90):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def still_running(processes, seconds=20):
    """Those that have not ended by then. Where init reaps nobody, the others stay as zombies."""
    until = time.monotonic() + seconds
    while (alive := [p for p in processes if _is_running(p)]) and time.monotonic() < until:
        time.sleep(0.05)
    return alive


def _is_running(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def has_draws(folder):
    return lambda: any((folder / "draws").glob("*.npz"))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_keeps_finished_draws_and_ends_the_workers(tmp_path, table, number, code):
    out = tmp_path / "run"
    process = started("value", table, *ENDLESS, "--out", out)
    wait_for(has_draws(out))
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in errors
    assert re.search(rf"\b{len(ds.load_run(out))} draws? (is|are) kept", errors)
    assert len(children) >= 2
    assert not still_running(children)


def test_a_terminal_that_is_closed_ends_all_without_a_traceback(tmp_path, table):
    """It sends SIGHUP to every process of the command."""
    out = tmp_path / "run"
    process = started("value", table, *ENDLESS, "--out", out, start_new_session=True)
    wait_for(has_draws(out))
    os.killpg(process.pid, signal.SIGHUP)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 129
    assert "Traceback" not in errors


def test_workers_end_when_their_parent_is_killed(tmp_path, table):
    out = tmp_path / "run"
    process = started("value", table, *ENDLESS, "--out", out)
    wait_for(has_draws(out))
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    assert len(children) >= 2
    assert not still_running(children)
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize("after", [0.1, 0.3, 0.6])
def test_ctrl_c_at_the_start_is_one_line(table, after):
    process = started("value", table, *ENDLESS)
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    # The first moments are the interpreter's own: it looks for the package, and says so its way.
    assert not re.search(r"dshapley/(?!__init__)\w+\.py", errors)
    if "Traceback" not in errors:
        assert process.returncode in (130, -signal.SIGINT)


@pytest.mark.parametrize(
    ("closed", "jobs"), [("0", "1"), ("1", "1"), ("2", "1"), ("0 1 2", "1"), ("0 1 2", "2")]
)
def test_closed_streams(tmp_path, table, closed, jobs):
    out = tmp_path / "run"
    args = program("value", table, *QUICK, "--draws", "5", "--jobs", jobs, "--out", out)
    shut = " ".join(f"{n}>&-" if n != "0" else "0<&-" for n in closed.split())
    found = subprocess.run(["sh", "-c", f'"$@" {shut}', "sh", *args], check=False, timeout=90)
    assert found.returncode == 0
    assert len(ds.load_run(out)) == 5


def test_a_reader_that_goes_does_not_stop_the_work(tmp_path, table):
    process = started(
        "value", table, *QUICK, "--draws", "5", "--jobs", "1", "--out", tmp_path / "r"
    )
    process.stdout.close()
    process.stderr.close()
    assert process.wait(timeout=90) == 0
    assert (tmp_path / "r" / "values.csv").exists()


def test_an_encoding_that_lacks_letters(table):
    args = program("value", table, *QUICK, "--draws", "5", "--jobs", "1", "--id", "name")
    found = subprocess.run(
        args, capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert found.returncode == 0, found.stderr
    assert rb"Zo\xeb" in found.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux alone has it")  # noqa: PTH110
def test_a_full_disk_is_an_error(table):
    args = program("value", table, *QUICK, "--draws", "5", "--jobs", "1")
    with open("/dev/full", "w") as full:  # noqa: PTH123
        found = subprocess.run(args, stdout=full, stderr=subprocess.PIPE, check=False, text=True)
    assert found.returncode == 2
    assert "No space left" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux alone has it")  # noqa: PTH110
@pytest.mark.parametrize("args", [["--help"], ["--version"], ["show", "nowhere"]])
def test_both_streams_full(args):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        found = subprocess.run(program(*args), stdout=full, stderr=full, check=False)
    assert found.returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux alone has it")  # noqa: PTH110
def test_notices_that_cannot_be_written_do_not_stop_the_work(tmp_path, table):
    out = tmp_path / "run"
    args = program("value", table, *QUICK, "--draws", "5", "--jobs", "1", "--out", out)
    with open("/dev/full", "w") as full:  # noqa: PTH123
        found = subprocess.run(args, stdout=subprocess.DEVNULL, stderr=full, check=False)
    assert found.returncode == 0
    assert (out / "values.csv").exists()


def test_messages_stay_on_one_line(tmp_path, table):
    out = tmp_path / "run"
    args = program("value", table, *QUICK, "--draws", "5", "--jobs", "1", "--out", out)
    subprocess.run(args, check=True, capture_output=True)
    manifest = out / "manifest.json"
    name = "a\\n\\u001b[31mb" + "c" * 100_000
    manifest.write_text(manifest.read_text().replace('"distributional Shapley"', f'"{name}"'))
    found = subprocess.run(program("show", out), capture_output=True, check=False, text=True)
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert len(found.stderr) < 3000
    assert "\x1b" not in found.stderr


def test_a_bug_has_an_exit_code_of_its_own(capsys, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def broken():
        raise ZeroDivisionError

    def hungry():
        raise MemoryError

    assert run_command(broken) == 70
    assert "please report it" in capsys.readouterr().err
    assert run_command(hungry) == 2
    assert "not enough memory" in capsys.readouterr().err
