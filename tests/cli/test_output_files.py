"""What the command writes: whole or not at all, whoever else writes, and never over an input."""

import ctypes
import json
import os
import resource
import signal
import stat
import subprocess
import time

import numpy as np
import pytest

from conftest import GOLDEN, Held, binary, golden, old_contract, write_folder
from test_bad_input import assert_refused
from test_tune import records

EDGES = GOLDEN / "edges.npz"
RUN = ("run", EDGES, "--iterations", 1, "--warmup", 0)
TINY = ("--levels", "4x4", "--queries", 3, "--iterations", 3)
# Every command line that writes a file, and the option that names it.
WRITERS = {
    "run npz": (RUN, "--output", "o.npz"),
    "run npy": (RUN, "--output", "o.npy"),
    "run bin": (RUN, "--output", "o.bin"),
    "save inputs": (("bench", "--workload", "dec"), "--save-inputs", "o.npz"),
    "bench json": (("bench", *TINY), "--json", "o.json"),
    "bench csv": (("bench", *TINY), "--csv", "o.csv"),
    "bench plot": (("bench", *TINY), "--plot", "o.svg"),
    "tune json": (("tune", *TINY), "--json", "o.json"),
    "tune csv": (("tune", *TINY), "--csv", "o.csv"),
    "tune wisdom": (("tune", *TINY, "--budget-ms", 60000), "--wisdom", "o.txt"),
    "roofline json": (("roofline", *TINY[:4]), "--json", "o.json"),
    "roofline plot": (("roofline", *TINY[:4]), "--plot", "o.svg"),
}
each_writer = pytest.mark.parametrize("writer", WRITERS)


# ---- several writers, and signals
@each_writer
def test_two_writers(tmp_path, msda_ok, writer):
    """Both are at work at once; the file is that of the last one, and nothing else is there."""
    words, option, name = WRITERS[writer]
    first = Held(tmp_path, *words, option, name)
    if writer == "tune wisdom":  # the second waits for the first's lock
        assert first.finish() == (0, "")
    second = Held(tmp_path, *words, option, name)
    assert len(os.listdir(tmp_path)) == 2
    if writer != "tune wisdom":
        assert first.finish() == (0, "")
    before = (tmp_path / name).read_bytes()
    assert second.finish() == (0, "")
    assert os.listdir(tmp_path) == [name]
    if "run" in writer:
        assert (tmp_path / name).read_bytes() == before
        msda_ok(*words, option, name, cwd=tmp_path)
        assert (tmp_path / name).read_bytes() == before


def test_writers_do_not_mix_their_arrays(tmp_path):
    for k in (1, 2):
        arrays = {
            "value": np.full((1, 16, 8, 32), k, np.float32),
            "level_hw": np.array([[4, 4]]),
            "coord": np.full((1, 2000, 8, 1, 2), 0.5, np.float32),
            "weight": np.ones((1, 2000, 8, 1), np.float32),
        }
        np.savez(tmp_path / f"in{k}.npz", **arrays)
    for _ in range(10):
        writers = [
            subprocess.Popen(
                [binary(), "run", f"in{k}.npz", "--iterations", "1", "--output", "o.npy"],
                cwd=tmp_path,
                stdout=subprocess.DEVNULL,
            )
            for k in (1, 2)
        ]
        assert [writer.wait() for writer in writers] == [0, 0]
        assert np.unique(np.load(tmp_path / "o.npy")).tolist() in ([1.0], [2.0])
    assert sorted(os.listdir(tmp_path)) == ["in1.npz", "in2.npz", "o.npy"]


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGPIPE"])
@pytest.mark.parametrize("writer", ["run npz", "run npy", "bench json", "tune wisdom"])
def test_a_signal_leaves_nothing(tmp_path, writer, number):
    words, option, name = WRITERS[writer]
    before = signal.signal(getattr(signal, number), signal.SIG_DFL)  # under nohup the command would ignore SIGHUP, too
    held = Held(tmp_path, *words, option, name)
    signal.signal(getattr(signal, number), before)
    assert name not in os.listdir(tmp_path)
    if number == "SIGPIPE":
        held.pipe.close()
    else:
        held.process.send_signal(getattr(signal, number))
    assert held.process.wait() == -getattr(signal, number)
    assert os.listdir(tmp_path) == []


def test_a_signal_leaves_none_of_several(tmp_path):
    held = Held(tmp_path, "bench", *TINY, "--json", "o.json", "--csv", "o.csv", "--plot", "o.svg")
    while len(os.listdir(tmp_path)) < 3:
        time.sleep(0.01)
    held.process.terminate()
    assert held.process.wait() == -signal.SIGTERM
    assert os.listdir(tmp_path) == []


def test_signals_that_are_ignored_stay_so(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    held = Held(tmp_path, *RUN, "--output", "o.npy")
    signal.signal(signal.SIGHUP, before)
    held.process.send_signal(signal.SIGHUP)
    assert held.finish() == (0, "")
    assert os.listdir(tmp_path) == ["o.npy"]


def test_two_tunes_keep_each_others_records(tmp_path):
    words = ("tune", "--levels", "4x4", "--queries", 3, "--iterations", 3, "--budget-ms", 60000)
    first = Held(tmp_path, *words, "--batch", 1, "--threads", 1, "--wisdom", "w.txt")
    # The second comes while the first one has written its records and not yet put them there.
    second = subprocess.Popen(
        [binary(), *map(str, words), "--batch", "2", "--threads", "1", "--wisdom", "w.txt"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    lock = f"{second.pid} "
    while not any("->" in row and lock in row for row in open("/proc/locks")):
        assert second.poll() is None
        time.sleep(0.01)
    assert first.finish() == (0, "")
    assert second.wait() == 0
    assert os.listdir(tmp_path) == ["w.txt"]
    assert {batch for batch, *_ in records(tmp_path / "w.txt")} == {"1", "2"}


# ---- an output is never an input
@pytest.mark.parametrize("how", ["itself", "other name", "symbolic link", "hard link", "stdout"])
def test_output_over_the_input(msda, tmp_path, how):
    np.savez(tmp_path / "x.npz", **golden("edges"))
    before = (tmp_path / "x.npz").read_bytes()
    output = {
        "itself": "x.npz",
        "other name": f"../{tmp_path.name}/x.npz",
        "symbolic link": "l.npz",
        "hard link": "h.npz",
        "stdout": "-",
    }[how]
    if how == "symbolic link":
        (tmp_path / output).symlink_to("x.npz")
    if how == "hard link":
        (tmp_path / output).hardlink_to(tmp_path / "x.npz")
    words = ("run", "x.npz", "--iterations", 1, "--output", output)
    if how == "stdout":
        with open(tmp_path / "x.npz", "r+b") as file:
            result = msda(*words, cwd=tmp_path, stdout=file)
        assert result.returncode == 2 and "that is the input x.npz" in result.stderr
    else:
        assert_refused(msda(*words, cwd=tmp_path), "run", f"'{output}': that is the input x.npz")
    assert (tmp_path / "x.npz").read_bytes() == before


def test_no_option_writes_what_is_read(msda, tmp_path):
    write_folder(tmp_path / "d", old_contract())
    (tmp_path / "w.txt").write_text("libmsda tuning records 2\n")
    for words in (
        ("run", "d", "batch=3", "queries=5", "--output", "d/value.bin"),
        ("run", "--dir", "d", "batch=3", "queries=5", "--output", "d/value.bin"),
        ("bench", *TINY, "--wisdom", "w.txt", "--json", "w.txt"),
        ("roofline", *TINY[:4], "--times", "w.txt", "--json", "w.txt"),
        ("roofline", *TINY[:4], "--rates", "w.txt", "--json", "w.txt"),
        ("roofline", *TINY[:4], "--ncu", "w.txt", "--json", "w.txt"),
    ):
        assert_refused(msda(*words, cwd=tmp_path), words[0], "that is the input")
    for names in (("o", "o"), ("o", "./o"), ("-", "/dev/stdout"), ("w.txt", "w.txt")):
        twice = msda("bench", *TINY, "--json", names[0], "--csv", names[1], cwd=tmp_path)
        assert_refused(twice, "bench", f"--csv is '{names[1]}': --json writes that file")
    assert sorted(os.listdir(tmp_path)) == ["d", "w.txt"]


# ---- a command that fails prints and leaves nothing
def with_file_limit(command, folder, size=16):
    return subprocess.run(
        [binary(), *map(str, command)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )


@each_writer
def test_no_room(tmp_path, writer):
    words, option, name = WRITERS[writer]
    (tmp_path / name).write_text("" if "wisdom" in writer else "before")
    if "wisdom" in writer:
        (tmp_path / name).unlink()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    result = with_file_limit((*words, option, name), tmp_path)
    assert_refused(result, words[0], f"{name} cannot be written: File too large")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@each_writer
def test_a_full_device(msda, writer):
    words, option, _ = WRITERS[writer]
    full = msda(*words, option, "/dev/full")
    assert_refused(full, words[0], "/dev/full cannot be written: No space left on device")


def test_a_full_standard_output_leaves_no_file(msda, tmp_path):
    for words, option, name in WRITERS.values():
        with open("/dev/full", "w") as full:
            result = msda(*words, option, name, cwd=tmp_path, stdout=full)
        assert result.returncode == 2
        error = f"msda {words[0]}: error: standard output cannot be written\n"
        assert result.stderr == error, words
        assert os.listdir(tmp_path) == []


def test_of_two_files_none_is_left(msda, tmp_path):
    result = msda("bench", *TINY, "--csv", "o.csv", "--json", "/dev/full", cwd=tmp_path)
    assert_refused(result, "bench", "/dev/full")
    assert os.listdir(tmp_path) == []


def test_notes_are_not_beside_an_error(msda, tmp_path):
    np.savez(tmp_path / "in.npz", photo=np.zeros(3), **golden("edges"))
    assert_refused(msda("run", tmp_path / "in.npz", "--output", "/dev/full"), "run", "/dev/full")


# ---- what is there and is no regular file is written to
@each_writer
def test_links_stay(msda_ok, tmp_path, writer):
    words, option, name = WRITERS[writer]
    (tmp_path / "deep").mkdir()
    ending = name[1:]
    (tmp_path / f"a{ending}").symlink_to(f"deep/b{ending}")
    (tmp_path / "deep" / f"b{ending}").symlink_to(f"c{ending}")
    for _ in range(2):  # into a name that is free, and over a file
        msda_ok(*words, option, f"a{ending}", cwd=tmp_path)
        assert sorted(os.listdir(tmp_path / "deep")) == [f"b{ending}", f"c{ending}"]
        target = tmp_path / "deep" / f"c{ending}"
        assert target.is_file() and not target.is_symlink() and target.stat().st_size > 0
        assert (tmp_path / f"a{ending}").is_symlink()
        assert (tmp_path / "deep" / f"b{ending}").is_symlink()


def test_permissions_stay(msda_ok, tmp_path):
    old = os.umask(0o027)
    msda_ok(*RUN, "--output", tmp_path / "o.npy")
    os.umask(old)
    assert stat.S_IMODE((tmp_path / "o.npy").stat().st_mode) == 0o640
    (tmp_path / "o.npy").chmod(0o604)
    msda_ok(*RUN, "--output", tmp_path / "o.npy")
    assert stat.S_IMODE((tmp_path / "o.npy").stat().st_mode) == 0o604


@each_writer
def test_devices_stay(msda_ok, tmp_path, writer):
    words, option, _ = WRITERS[writer]
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("/dev/null", tmp_path / "null"):
        assert len(msda_ok(*words, option, name)) > 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode) and (tmp_path / "null").is_symlink()


@each_writer
@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "file"])
def test_standard_output(msda, tmp_path, writer, name):
    words, option, file_name = WRITERS[writer]
    with open(tmp_path / file_name, "wb") as file:
        path = tmp_path / file_name if name == "file" else name
        result = msda(*words, option, path, cwd=tmp_path, stdout=file)
    assert result.returncode == 0, result.stderr
    assert os.listdir(tmp_path) == [file_name]
    assert not os.path.islink("/dev/stdout") or os.readlink("/dev/stdout") == "/proc/self/fd/1"
    written = (tmp_path / file_name).read_bytes()
    assert "\n" in result.stderr  # the table
    if file_name.endswith(".json"):
        assert json.loads(written)["results"]
    if file_name.endswith(".svg"):
        assert written.startswith(b"<svg")
    if file_name == "o.txt":
        assert len(records(tmp_path / file_name)) == 1
    if words == RUN and (name == "file" and file_name == "o.npz"):
        assert np.load(tmp_path / file_name)["output"].shape == golden("edges")["output"].shape
    if words == RUN and name != "file":
        np.testing.assert_allclose(np.load(tmp_path / file_name), golden("edges")["output"])


@pytest.mark.parametrize("name", ["fifo", "link", "fifo.npz", "fifo.bin"])
def test_fifo(tmp_path, name):
    os.mkfifo(tmp_path / ("fifo" if name == "link" else name))
    if name == "link":
        (tmp_path / name).symlink_to("fifo")
    writer = subprocess.Popen(
        [binary(), *map(str, RUN), "--output", name], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    written = (tmp_path / name).read_bytes()  # waits for a writer, and for its end
    assert writer.wait() == 0
    assert stat.S_ISFIFO((tmp_path / name).stat().st_mode)
    (tmp_path / "copy").write_bytes(written)
    expected = golden("edges")["output"]
    if name == "fifo.bin":
        np.testing.assert_allclose(np.frombuffer(written).reshape(expected.shape), expected)
    elif name == "fifo.npz":
        np.testing.assert_allclose(np.load(tmp_path / "copy")["output"], expected)
    else:
        np.testing.assert_allclose(np.load(tmp_path / "copy"), expected)


def test_other_descriptors(tmp_path):
    with open(tmp_path / "three", "wb") as file:
        words = [binary(), *map(str, RUN), "--output", f"/dev/fd/{file.fileno()}"]
        subprocess.run(words, check=True, pass_fds=[file.fileno()], stdout=subprocess.DEVNULL)
    np.testing.assert_allclose(np.load(tmp_path / "three"), golden("edges")["output"])
    closed = subprocess.run(
        [binary(), *map(str, RUN), "--output", "/dev/fd/77"], capture_output=True, check=False
    )
    assert closed.returncode == 2 and b"Bad file descriptor" in closed.stderr


def test_gradients_by_a_pipe_are_an_archive(tmp_path):
    words = [binary(), *map(str, RUN), "--backward", "--output", "-"]
    result = subprocess.run(words, check=True, capture_output=True)
    (tmp_path / "o.npz").write_bytes(result.stdout)
    with np.load(tmp_path / "o.npz") as gradients:
        assert sorted(gradients.files) == ["grad_coord", "grad_value", "grad_weight"]


# ---- permissions
def without_privileges():
    """Takes from root what lets it enter and write everywhere: CAP_DAC_OVERRIDE and _READ_SEARCH."""
    drop_from_bounding_set = 24
    for capability in (1, 2) if os.geteuid() == 0 else ():
        if ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0) != 0:
            raise OSError("capabilities cannot be dropped")


@pytest.fixture
def locked(tmp_path):
    """A folder `locked` that the command may not enter, with files; and `closed.npz`, read alone."""
    folder = tmp_path / "locked"
    write_folder(folder, old_contract())
    np.savez(folder / "in.npz", **golden("edges"))
    (tmp_path / "closed.npz").write_bytes((folder / "in.npz").read_bytes())
    (tmp_path / "closed.npz").chmod(0o400)
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
        os.chown(tmp_path / "closed.npz", 65534, 65534)
        (tmp_path / "closed.npz").chmod(0o404)
    folder.chmod(0o700 if os.geteuid() == 0 else 0)
    yield tmp_path
    folder.chmod(0o700)


@pytest.mark.parametrize(
    "words",
    [
        ("run", "locked/in.npz"),
        ("run", "--npz", "locked/in.npz"),
        ("run", "--dir", "locked/data", "batch=3", "queries=5"),
        ("run", "--dir", "locked", "batch=3", "queries=5"),
        ("explain", "locked/in.npz"),
        ("bench", *TINY, "--wisdom", "locked/w.txt"),
        ("roofline", *TINY[:4], "--rates", "locked/r.json"),
        ("roofline", *TINY[:4], "--times", "locked/t.csv"),
        (*RUN, "--output", "locked/o.npz"),
        (*RUN, "--output", "closed.npz"),
        ("tune", *TINY, "--wisdom", "locked/w.txt"),
    ],
    ids=lambda words: " ".join(map(str, words[-4:])),
)
def test_permission_is_named(msda, locked, words):
    result = msda(*words, cwd=locked, preexec_fn=without_privileges)
    assert_refused(result, words[0], "Permission denied")
