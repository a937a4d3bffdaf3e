"""Every mistake: exit code 2, one line that names what was wrong, and no output file."""

import pathlib
import struct
import zipfile

import numpy as np
import pytest

from conftest import GOLDEN, golden, old_contract, usual_names, write_folder
from gpu_machine import NO_DEVICE, must_work

EDGES = GOLDEN / "edges.npz"
FUSED = GOLDEN / "fused_ref2.npz"


def assert_refused(result, command, *fragments):
    assert result.returncode == 2, (result.returncode, result.stdout, result.stderr)
    assert result.stderr.count("\n") == 1 and result.stderr.endswith("\n"), result.stderr
    prefix = f"msda {command}: error: " if command else "msda: error: "
    assert result.stderr.startswith(prefix), result.stderr
    for fragment in fragments:
        assert fragment in result.stderr, (fragment, result.stderr)
    assert result.stdout == ""


# ---- arguments: the words after `msda`, and what the message must hold
ARGUMENTS = [
    ([], "", "no command"),
    (["rnu"], "", "unknown command 'rnu'; there are info, run, explain, roofline, bench, tune; did you mean 'run'?\n"),
    (["help", "rnu"], "", "unknown command 'rnu'; there are", "did you mean 'run'?"),
    (["bench", "--threads", "1,x"], "bench", "--threads is '1,x': must be a whole number"),
    (["bench", "--dtype", "f32,f31"], "bench", "--dtype is 'f32,f31'"),
    (
        ["bench", "--workload", "dec", "--threads", "1,2", "--csv", "t.csv"],
        "bench",
        "--csv is 't.csv': it has no column for --threads",
    ),
    (
        ["bench", "--workload", "dec", "--dtype", "f32,f16", "--save-inputs", "t.npz"],
        "bench",
        "writes one workload: 2 were chosen",
    ),
    (["info", "-o", "x"], "info", "unknown option '-o'"),
    (["--verbose"], "", "unknown option '--verbose'"),
    (["run"], "run", "give one input", "`msda bench --workload dec --save-inputs tensors.npz` writes a file"),
    (["run", EDGES, "--npz", EDGES], "run", "give one input"),
    (["run", EDGES, EDGES], "run", "unexpected argument"),
    (["info", "x"], "info", "unexpected argument 'x'"),
    (["run", EDGES, "--bacth", 2], "run", "unknown option '--bacth'; did you mean '--batch'?"),
    (["run", EDGES, "-x"], "run", "unknown option '-x'"),
    (["run", EDGES, "--zzzzzzzz"], "run", "unknown option '--zzzzzzzz'; `msda run --help`"),
    (["run", EDGES, "querys=2"], "run", "unknown key 'querys'; did you mean 'queries'?"),
    (["run", EDGES, "workload=dec"], "run", "unknown key 'workload'"),
    (["run", EDGES, "batch="], "run", "batch= needs a value"),
    (["run", EDGES, "--batch="], "run", "--batch needs a value"),
    (["run", EDGES, "--batch"], "run", "--batch needs a value"),
    (["run", EDGES, "--batch", -3], "run", "--batch is '-3': must be a whole number from 0"),
    (["run", EDGES, "batch=-3"], "run", "batch= is '-3': must be"),
    (["run", EDGES, "--batch", "1.5"], "run", "--batch is '1.5': must be"),
    (
        ["run", EDGES, "--batch", "9223372036854775808"],
        "run",
        "must be a whole number from 0 to 92233",
    ),
    (["run", EDGES, "--batch", ""], "run", "--batch needs a value"),
    (
        ["run", EDGES, "--iterations", 0],
        "run",
        "--iterations is '0': must be a whole number from 1",
    ),
    (["run", EDGES, "--threads", -1], "run", "--threads is '-1': must be"),
    (["run", EDGES, "--threads", 99999], "run", "error: --threads is 99999: must be"),
    (["run", EDGES, "--dtype", "float32"], "run", "must be f64, f32, f16, bf16 or f8_e4m3"),
    (["run", EDGES, "--math", "quick"], "run", "--math is 'quick': must be accurate or fast"),
    (["run", EDGES, "--check=maybe"], "run", "--check is 'maybe': must be 1 or 0"),
    (["run", EDGES, "--levels", "3x"], "run", "--levels is '3x': must be HEIGHTxWIDTH"),
    (["run", EDGES, "--levels", "3x4x5"], "run", "must be HEIGHTxWIDTH"),
    (["run", EDGES, "--levels", "-3x4"], "run", "must be HEIGHTxWIDTH"),
    (["run", EDGES, "--points", "3,,3"], "run", "--points is '3,,3': must be"),
    (["run", EDGES, "--points", "2147483648"], "run", "must be a number from 0 to 2147483647"),
    (["run", EDGES, "--value-border", 2], "run", "--value-border is '2': must be"),
    (["run", EDGES, "--kernel", "none.cpu@1"], "run", "error: --kernel is 'none.cpu@1': must be one of ref.cpu@1, "),
    (["run", EDGES, "--kernel", "simd.cpu.f16@2"], "run", "value_dtype"),
    (["run", EDGES, "--device", NO_DEVICE], "run", f"error: --device is {NO_DEVICE}: "),
    (["run", EDGES, "--coord-dtype", "f8_e4m3"], "run", "must be f64, f32, f16 or bf16"),
    (["run", EDGES, "--output-dtype", "f8_e4m3"], "run", "must be f64, f32, f16 or bf16"),
    (["run", EDGES, "--gradients", "grad_value"], "run", "--gradients needs --backward"),
    (["run", EDGES, "--backward", "--gradients", "grad_logit"], "run", "'grad_logit': must be of"),
    (["run", EDGES, "--attention"], "run", "--attention is given and the problem is sampled: must be forward and fused"),
    (["run", FUSED, "--attention", "--backward"], "run", "the problem is backward: must be forward and fused, with logit"),
    (["run", FUSED, "--attention", "--output", "out.npy"], "run", "holds one array, not output, attention; use .npz"),
    # sizes that are not those of the file
    (["run", EDGES, "--batch", 2], "run", "--batch is 2, but the input has 1"),
    (["run", EDGES, "heads=3"], "run", "heads= is 3, but the input has 2"),
    (["run", EDGES, "--queries", 63], "run", "--queries is 63, but the input has 64"),
    (["run", EDGES, "--channels", 16], "run", "--channels is 16, but the input has 8"),
    (["run", EDGES, "--levels", "12x14,6x7,3x4"], "run", "--levels is [12, 14, 6, 7, 3, 4]"),
    (["run", EDGES, "--points", "3"], "run", "--points is [3], but the input has [4, 4, 4, 4]"),
    (["run", EDGES, "--value-border", 1], "run", "226 tokens", "value_border 1"),
    # outputs
    (
        ["run", EDGES, "--output", "no-such-folder/out.npz"],
        "run",
        "folder no-such-folder does not exist",
    ),
    (["run", EDGES, "--output", "out.txt"], "run", "must end in .npz, .npy, .bin"),
    (["run", EDGES, "--backward", "--output", "out.npy"], "run", "holds one array", "--gradients"),
    (["explain"], "explain", "--levels is missing"),
    (["explain", EDGES, "--workload", "dec"], "explain", "not both"),
    (["run", EDGES, "--point-locality", "pattern"], "run", "--point-locality is pattern: only workloads have one"),
    (["explain", "--levels", "4x4", "--point-locality", "far"], "explain", "must be unknown, local, scattered or pattern"),
    (["explain", "--levels", "4x4", "--fused", 3], "explain", "--fused is '3': must be 2"),
    (["explain", "--levels", "4x4,2x2", "--points", "1,2,3"], "explain", "there are 2 levels"),
    (["bench", "--threads", "1,"], "bench", "--threads is '1,': must be values with commas between, none of them empty"),
    (["bench", "--workload", "encoder"], "bench", "unknown workload 'encoder'; there are main, all, "),
    (["bench", "--workload", "enc-unifrom"], "bench", "did you mean 'enc-uniform'?"),
    (["bench", "--levels", "4x4", "--pattern", "spiral"], "bench", "must be uniform or local"),
    (["bench", "--levels", "4x4", "--kernels", "none@1"], "bench", "error: --kernels is 'none@1': must be one of ref.cpu@1, "),
    (["bench", "--levels", "4x4", "--flush-mib", 2**44], "bench", "from 0 to 1048576"),
    (["bench", "--levels", "4x4", "--plot", "out.pdf"], "bench", "must end in .svg, .png"),
    (
        ["bench", "--levels", "4x4", "--json", "nowhere/out.json"],
        "bench",
        "folder nowhere does not exist",
    ),
    (["bench", "--workload", "rtdetr,dec", "--save-inputs", "x.npz"], "bench", "2 were chosen"),
    (["bench", "--levels", "65536x65536", "--batch", "2147483647"], "bench", ""),
    (["bench", "--levels", "4x4", "--wisdom", "none.txt"], "bench", "none.txt does not exist"),
    (["run", EDGES, "--wisdom", "none.txt"], "run", "none.txt does not exist"),
    (["run", EDGES, "--wisdom", EDGES], "run", "edges.npz", "text, line 1: byte 3 is 0x03"),
    (["explain", "--levels", "4x4", "--wisdom", "x"], "explain", "unknown option '--wisdom'"),
    (["tune", "--levels", "4x4", "--budget-ms", 0], "tune", "--budget-ms is '0': must be a finite"),
    (["tune", "--levels", "4x4", "--budget-ms", "inf"], "tune", "--budget-ms is 'inf': must be"),
    (["tune", "--levels", "4x4", "--budget-ms", "soon"], "tune", "--budget-ms is 'soon': must be"),
    (["tune", "--workload", "decc"], "tune", "unknown workload 'decc'; there are main, all, ", "; did you mean 'dec'?"),
    (["tune", "--levels", "4x4", "--kernels", "all"], "tune", "unknown option '--kernels'"),
    (["tune", "--levels", "4x4", "--wisdom", "no/w.txt"], "tune", "the folder no does not exist"),
    (["tune", "--levels", "4x4", "--json", "no/o.json"], "tune", "the folder no does not exist"),
    (["tune", "--levels", "4x4", "--wisdom", EDGES], "tune", "edges.npz", "text, line 1: byte 3"),
    (["tune", "--levels", "4x4", "--threads", 99999], "tune", "error: --threads is 99999"),
    (["tune", "--levels", "65536x65536", "--batch", "2147483647"], "tune", ""),
    (["roofline", "--levels", "65536x65536", "--batch", "2147483647"], "roofline", ""),
    (["roofline", EDGES, "--workload", "dec"], "roofline", "not both"),
    (["roofline", "--workload", "decc"], "roofline", "did you mean 'dec'?"),
    (["roofline", "--levels", "4x4", "--backward"], "roofline", "unknown option '--backward'"),
    (["roofline", "--levels", "4x4", "--gpu", "b200"], "roofline", "--gpu is 'b200': must be h200"),
    (["roofline", "--levels", "4x4", "--device", "cpu"], "roofline", "--device is 'cpu': must be"),
    (["run", EDGES, "--device", "gpu"], "run", "--device is 'gpu': must be cpu or the number of a GPU"),
    (["explain", "--levels", "4x4", "--tokens", 3], "explain", "error: token_count is 3: must be 0 or at least 16"),
    (["roofline", "--levels", "4x4", "--device", NO_DEVICE], "roofline", f"error: --device is {NO_DEVICE}: "),
    (["roofline", "--levels", "4x4", "--gpu", "h200", "--device", 0], "roofline", "--gpu or --device"),
    (["roofline", "--levels", "4x4", "--gpu", "h200", "--rates", "x"], "roofline", "--gpu or --rates"),
    (["roofline", "--calibrate", "x", "--rates", "x", "--device", 0], "roofline", "--calibrate or --rates"),
    (["roofline", "--levels", "4x4", "--calibrate", "x.json"], "roofline", "needs --device"),
    (["roofline", "--levels", "4x4", "--rates", "none.json"], "roofline", "none.json does not exist"),
    (["roofline", "--levels", "4x4", "--times", "none.csv"], "roofline", "none.csv does not exist"),
    (["roofline", "--levels", "4x4", "--ncu", "none.csv"], "roofline", "none.csv does not exist"),
    (["roofline", "--ncu", "none.csv"], "roofline", "--ncu is of one kernel on one problem: 6 rows"),
    (["roofline", "--levels", "4x4", "--plot", "out.pdf"], "roofline", "must end in .svg, .png"),
    (["roofline", "--levels", "4x4", "--json", "no/o.json"], "roofline", "the folder no does not exist"),
    (
        ["roofline", "--levels", "4x4", "--kernels", "direct.sm75.f32.d32.p4@0"],
        "roofline",
        "--kernels names an unknown kernel 'direct.sm75.f32.d32.p4@0'; `msda info --kernels` lists them; did you mean",
    ),
    (
        ["roofline", "--levels", "4x4", "--kernels", "direct.sm75.f32.d32.p8@1"],
        "roofline",
        "custom: direct.sm75.f32.d32.p8@1 does not take these point counts (NVIDIA H200)",
    ),
]


@pytest.mark.parametrize(
    "words, command, fragments",
    [(words, command, rest) for words, command, *rest in ARGUMENTS],
    ids=[" ".join(pathlib.Path(str(w)).name for w in row[0]) or "nothing" for row in ARGUMENTS],
)
def test_arguments(msda, tmp_path, words, command, fragments):
    assert_refused(msda(*words, cwd=tmp_path), command, *fragments)
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_is_used_or_refused(msda, msda_ok, tmp_path):
    """What --device 0 does follows from the machine and the build, whichever they are."""
    words = ("run", EDGES, "--device", 0, "--dtype", "f32", "--output", "out.npz")
    if must_work(msda_ok("info")):
        msda_ok(*words, cwd=tmp_path)
        assert (tmp_path / "out.npz").exists()
    else:
        assert_refused(msda(*words, cwd=tmp_path), "run", "--device is 0: ", "--device cpu")
        assert list(tmp_path.iterdir()) == []


def test_full_disk(msda):
    with open("/dev/full", "w") as full:
        result = msda("info", stdout=full)
    assert result.returncode == 2
    assert result.stderr == "msda info: error: standard output cannot be written\n"


def test_environment_variable_is_named(msda, tmp_path):
    write_folder(tmp_path / "data", old_contract())
    words = ("run", "--dir", tmp_path / "data", "queries=5")
    many, other = msda(*words, env={"BATCH_SIZE": "many"}), msda(*words, env={"BATCH_SIZE": "2"})
    assert_refused(many, "run", "BATCH_SIZE is 'many': must be")
    assert_refused(other, "run", "value.bin has")


def test_two_dashes_with_nothing_to_end(msda):
    for word in ("---", "--=x", "---=x"):
        assert_refused(msda("run", EDGES, word), "run", f"unknown option '{word.split('=')[0]}'")


# ---- .npz files: what is changed in a good one, and what the message must hold
def change(name, function):
    def apply(arrays):
        arrays[name] = function(arrays[name])

    return apply


def drop(name):
    return lambda arrays: arrays.pop(name)


GOLDEN_NAMES = {
    "no value": (drop("value"), "array 'value' is missing"),
    "no level_hw": (drop("level_hw"), "array 'level_hw' is missing"),
    "no weight": (drop("weight"), "array 'weight' is missing"),
    "misspelt": (lambda a: a.update(wieght=a.pop("weight")), "array 'weight' is missing"),
    "nothing": (lambda a: a.clear(), "is missing"),
    "short value": (change("value", lambda v: v[:, :-1]), "225 tokens", "226"),
    "long value": (change("value", lambda v: np.tile(v, (1, 2, 1, 1))), "452 tokens"),
    "other batch": (
        change("coord", lambda c: np.tile(c, (2, 1, 1, 1, 1))),
        "coord has shape [2, 64, 2, 16, 2]",
        "[1, 64, 2, 16, 2]",
    ),
    "other heads": (change("weight", lambda w: w[:, :, :1]), "weight has shape [1, 64, 1, 16]"),
    "other queries": (change("coord", lambda c: c[:, 1:]), "coord has shape [1, 63, 2, 16, 2]"),
    "three coordinates": (
        change("coord", lambda c: np.concatenate([c, c[..., :1]], -1)),
        "coord has",
    ),
    "flat value": (change("value", lambda v: v.reshape(226, 16)), "must have 4 dimensions"),
    "value of integers": (change("value", lambda v: v.astype(np.int32)), "dtype '<i4'"),
    "value of bits": (
        change("value", lambda v: v.astype(np.uint16)),
        "--stored-value-dtype bf16 or f16",
    ),
    "value of bools": (change("value", lambda v: v > 0), "must be float64"),
    "complex value": (change("value", lambda v: v.astype(np.complex64)), "dtype '<c8'"),
    "long double": (change("value", lambda v: v.astype(np.longdouble)), "dtype '<f16'"),
    "big-endian integers": (change("value", lambda v: v.astype(">i4")), "dtype '>i4'"),
    "strings": (change("value", lambda v: v.astype("U3")), "dtype '<U3'"),
    "records": (change("value", lambda v: np.zeros(3, [("a", "f4")])), "structured"),
    "coord of float8": (change("coord", lambda c: c.astype("V1")), "float16 or bfloat16\n"),
    "weight of bits": (
        change("weight", lambda w: w.astype(np.uint8)),
        "dtype '|u1': must be float64, float32, float16 or bfloat16\n",
    ),
    "scale of no type": (
        lambda a: a.update(value_scale=np.ones(2, np.uint16)),
        "value_scale has dtype '<u2': must be float64, float32, float16 or bfloat16\n",
    ),
    "scale of f64 values": (
        lambda a: a.update(value_scale=np.ones(2, np.float32)),
        "value_scale is there, and value is f64: only f8_e4m3 has a scale",
    ),
    "level_hw of floats": (change("level_hw", lambda h: h * 1.0), "must be an integer type"),
    "negative level": (change("level_hw", lambda h: h - 13), "must be from 0 to 2147483647"),
    "huge level": (change("level_hw", lambda h: h.astype(np.int64) << 40), "must be from 0"),
    "triples": (change("level_hw", lambda h: np.ones((4, 3), np.int32)), "[levels, 2]"),
    "huge levels": (change("level_hw", lambda h: h * 0 + 2147483647), "2^63 tokens"),
    "unsigned overflow": (
        change("points", lambda p: np.full(4, 2**63, np.uint64)),
        "less than 2^63",
    ),
    "negative points": (change("points", lambda p: np.array([5, 5, 7, -1])), "holds -1"),
    "too few points": (
        change("points", lambda p: p - 1),
        "must be [B, Q, M, K, 2] = [1, 64, 2, 12, 2]",
    ),
    "points of five levels": (change("points", lambda p: np.ones(5, np.int32)), "5 entries"),
    "uneven points": (
        lambda a: (a.pop("points"), change("weight", lambda w: w[..., :15])(a)),
        "15 points do not divide by 4 levels",
    ),
    "scale of three heads": (
        lambda a: a.update(value_scale=np.ones(3, np.float32)),
        "value_scale has",
    ),
    "query_hw of others": (lambda a: a.update(query_hw=np.array([[5, 5]])), "query_hw"),
}

USUAL_NAMES = {
    "no locations": (drop("sampling_locations"), "'sampling_locations' is missing"),
    "no head axis of value": (
        change("value", lambda v: v.reshape(1, 226, 16)),
        ("value has shape [1, 226, 16]: must be [B, S, M, D] with M = 2, which "
        "sampling_locations of shape [1, 64, 2, 4, 4, 2] has"),
    ),
    "no head axis of weights": (
        change("attention_weights", lambda w: w.reshape(1, 64, 4, 8)),
        ("attention_weights has shape [1, 64, 4, 8]: must be [B, Q, M, L, P] with M = 2, which "
        "sampling_locations of shape [1, 64, 2, 4, 4, 2] has"),
    ),
    "other queries": (
        change("sampling_locations", lambda c: c[:, 1:]),
        ("sampling_locations has shape [1, 63, 2, 4, 4, 2]: "
        "must be [B, Q, M, L, P, 2] = [1, 64, 2, 4, 4, 2]"),
    ),
    "no starts and fewer tokens": (
        lambda a: (a.pop("level_start_index"), change("value", lambda v: v[:, 1:])(a)),
        "225 tokens",
    ),
    "no weights": (drop("attention_weights"), "'attention_weights' is missing"),
    "wrong starts": (
        change("level_start_index", lambda s: s + 1),
        "level starts [1, 169, 211, 223]",
    ),
    "starts of three": (change("level_start_index", lambda s: s[:3]), "level starts [0, 168, 210]"),
    "flat locations": (
        change("sampling_locations", lambda c: c.reshape(1, 64, 2, 32)),
        "must be [B, Q, M, L, P, 2]",
    ),
    "five levels": (
        change("attention_weights", lambda w: np.concatenate([w, w[:, :, :, :1]], 3)),
        "spatial_shapes has 4 levels",
    ),
    "fewer points": (
        change("sampling_locations", lambda c: c[..., 1:, :]),
        "sampling_locations has shape",
    ),
}

FUSED_NAMES = {
    "boxes of three": (
        change("reference", lambda r: np.concatenate([r, r[..., :1]], -1)),
        "the last dimension must be 2 or 4",
    ),
    "no logits": (drop("logit"), "'logit' is missing"),
    "reference a head": (change("reference", lambda r: r[:, :, None]), "must have 4 dimensions"),
    "reference of three levels": (
        change("reference", lambda r: r[:, :, :3]),
        "reference has shape",
    ),
    "offset of K - 1": (change("offset", lambda o: o[:, :, :, 1:]), "offset has shape"),
}


def npz_cases():
    for names, good, table in (
        ("golden", lambda: golden("edges"), GOLDEN_NAMES),
        ("usual", lambda: usual_names(golden("edges")), USUAL_NAMES),
        ("fused", lambda: golden("fused_ref2"), FUSED_NAMES),
    ):
        for what, (spoil, *fragments) in table.items():
            yield pytest.param(good, spoil, fragments, id=f"{names}-{what}")


@pytest.mark.parametrize("good, spoil, fragments", list(npz_cases()))
@pytest.mark.filterwarnings("ignore:.*")
def test_npz(msda, tmp_path, good, spoil, fragments):
    arrays = good()
    for name in [n for n in arrays if n in ("output", "grad_output") or n.startswith("grad_")]:
        del arrays[name]
    source, target = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(source, **arrays)
    assert msda("run", source, "--output", target, "--iterations", 1).returncode == 0
    before = target.read_bytes()
    spoil(arrays)
    np.savez(source, **arrays)
    spoilt = msda("run", source, "--output", target)
    assert_refused(spoilt, "run", *fragments)
    assert target.read_bytes() == before, "the output of the good run was touched"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.npz", "out.npz"]


def test_backward_without_grad_output(msda, tmp_path):
    arrays = golden("edges")
    del arrays["grad_output"]
    np.savez(tmp_path / "in.npz", **arrays)
    assert_refused(
        msda("run", tmp_path / "in.npz", "--backward"), "run", "'grad_output' is missing"
    )


# ---- damaged files
def zip_of(members):
    def make(path):
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)

    return make


def npy(header, data=b"", version=b"\x01\x00"):
    width = 2 if version[0] == 1 else 4
    return b"\x93NUMPY" + version + len(header).to_bytes(width, "little") + header + data


def cut(keep):
    return lambda path: path.write_bytes(EDGES.read_bytes()[:keep])


def flip(path):
    content = bytearray(EDGES.read_bytes())
    with zipfile.ZipFile(EDGES) as archive:
        info = archive.getinfo("value.npy")
    name_bytes, extra_bytes = struct.unpack_from("<HH", content, info.header_offset + 26)
    content[info.header_offset + 30 + name_bytes + extra_bytes + info.compress_size // 2] ^= 0x10
    path.write_bytes(content)


HW = b"{'descr': '<i4', 'fortran_order': False, 'shape': (%s), }\n"
DAMAGED = {
    "missing": (lambda path: None, "does not exist"),
    "folder": (lambda path: path.mkdir(), "--batch is missing"),
    "empty": (cut(0), "cannot be read as .npz"),
    "half": (cut(40000), "cannot be read as .npz"),
    "one byte short": (cut(-1), "cannot be read as .npz"),
    "flipped bit": (flip, "value is damaged"),
    "text": (lambda path: path.write_text("hello\n" * 99), "cannot be read as .npz"),
    ".npy itself": (lambda path: np.save(path.open("wb"), np.zeros(3)), "cannot be read as .npz"),
    "a name twice": (
        lambda path: [zip_of({"a.npy": b""})(path), zipfile.ZipFile(path, "a").writestr("a.npy", b"")],
        "has the array 'a' twice",
    ),
    "no arrays": (zip_of({"readme.txt": b"hello"}), "the file has none"),
    "empty member": (zip_of({"level_hw.npy": b""}), "level_hw is not a .npy array"),
    "not npy": (zip_of({"level_hw.npy": b"hello, world"}), "level_hw is not a .npy array"),
    "version 9": (zip_of({"level_hw.npy": npy(HW % b"1, 2", bytes(8), b"\x09\x00")}), "version 9"),
    "header cut": (
        zip_of({"level_hw.npy": npy(HW % b"1, 2")[:30]}),
        "cut short in its .npy header",
    ),
    "header length": (
        zip_of({"level_hw.npy": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}"}),
        "cut short",
    ),
    "header text": (zip_of({"level_hw.npy": npy(b"{'descr': 3}\n")}), "damaged .npy header"),
    "data cut": (
        zip_of({"level_hw.npy": npy(HW % b"1, 2", bytes(7))}),
        "7 bytes of data",
        "needs 8",
    ),
    "data too long": (zip_of({"level_hw.npy": npy(HW % b"1, 2", bytes(9))}), "9 bytes of data"),
    "negative shape": (zip_of({"level_hw.npy": npy(HW % b"-1, 2", bytes(8))}), "dimension of -1"),
    "huge shape": (zip_of({"level_hw.npy": npy(HW % b"4611686018427387904, 2", bytes(8))}), "2^63"),
    "longer than int64": (zip_of({"level_hw.npy": npy(HW % b"99999999999999999999, 2")}), "2^63"),
}


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_damaged_npz(msda, tmp_path, damage):
    make, *fragments = DAMAGED[damage]
    make(tmp_path / "in.npz")
    result = msda("run", tmp_path / "in.npz", "--output", tmp_path / "out.npz")
    assert_refused(result, "run", *fragments)
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00"])
def test_every_npy_version_is_read(msda_ok, tmp_path, version):
    arrays = golden("edges")
    header = str({"descr": "<f8", "fortran_order": False, "shape": arrays["value"].shape}).encode()
    np.savez(tmp_path / "in.npz", **{k: v for k, v in arrays.items() if k != "value"})
    with zipfile.ZipFile(tmp_path / "in.npz", "a") as archive:
        archive.writestr("value.npy", npy(header + b" \n", arrays["value"].tobytes(), version))
    msda_ok("run", tmp_path / "in.npz", "--output", tmp_path / "out.npy")
    assert np.allclose(np.load(tmp_path / "out.npy"), arrays["output"], rtol=0, atol=1e-12)


# ---- folders of raw files
# With the types said, a file of half the length cannot pass for one of half as wide elements.
SIZES = ["batch=3", "queries=5", "stored_coord_dtype=f32", "stored_weight_dtype=f32"]


def resize(name, function):
    def spoil(folder):
        path = folder / f"{name}.bin"
        path.write_bytes(function(path.read_bytes()))

    return spoil


def int64(name, values):
    return lambda folder: np.array(values, np.int64).tofile(folder / f"{name}.bin")


NAMES = ["value", "spatial_shapes", "level_start_index", "sampling_locations", "attention_weights"]
FOLDERS = {
    **{
        f"no {name}": (
            lambda f, n=name: (f / f"{n}.bin").unlink(),
            SIZES,
            f"{name}.bin does not exist",
        )
        for name in NAMES
        if name != "level_start_index"  # follows from the others
    },
    **{
        f"{name} {what}": (resize(name, function), SIZES, f"{name}.bin")
        for name in NAMES
        for what, function in {
            "one byte short": lambda b: b[:-1],
            "one byte long": lambda b: b + b"x",
            "empty": lambda b: b"",
        }.items()
    },
    **{
        f"{name} of half the length": (
            resize(name, lambda b: b[: len(b) // 2]),
            SIZES,
            f"{name}.bin",
        )
        for name in NAMES
    },
    "f32 values": (
        resize("value", lambda b: b + b),
        SIZES,
        "value.bin has",
        "f16",
        "--stored-value-dtype",
    ),
    "f64 locations": (
        resize("sampling_locations", lambda b: b + b),
        ["batch=3", "queries=5"],
        "of f32 or",
        "of f16",
    ),
    "f16 where f32 was said": (
        lambda f: None,
        [*SIZES, "value_dtype=f32"],
        "value.bin has",
        "of f32",
    ),
    "f32 where bf16 was said": (
        lambda f: None,
        ["batch=3", "queries=5", "coord_dtype=bf16"],
        "of bf16",
    ),
    "no batch": (lambda f: None, ["queries=5"], "--batch is missing"),
    "no queries": (lambda f: None, ["batch=3"], "--queries is missing"),
    "other batch": (lambda f: None, ["batch=2", "queries=5"], "value.bin has", "[2, 68, 1, 32]"),
    "other queries": (lambda f: None, ["batch=3", "queries=6"], "sampling_locations.bin has"),
    "other heads": (lambda f: None, [*SIZES, "heads=2"], "value.bin has"),
    "other channels": (lambda f: None, [*SIZES, "channels=16"], "value.bin has"),
    "other points": (lambda f: None, [*SIZES, "points=4"], "sampling_locations.bin has"),
    "points of three levels": (lambda f: None, [*SIZES, "points=1,2,3"], "has 2 levels"),
    "overflowing sizes": (lambda f: None, ["batch=4611686018427387904", "queries=5"], "2^63"),
    "other border": (lambda f: None, [*SIZES, "value_border=0"], "value_border 0"),
    "other levels": (lambda f: None, [*SIZES, "levels=4x6,2x4"], "levels= is [4, 6, 2, 4]"),
    "negative level": (int64("spatial_shapes", [[4, 6], [2, -3]]), SIZES, "holds -3", "from 0"),
    "huge level": (int64("spatial_shapes", [[4, 6], [2, 2**40]]), SIZES, "holds 1099511627776"),
    "three starts": (int64("level_start_index", [0, 48, 68]), SIZES, "3 entries"),
    "wrong starts": (int64("level_start_index", [0, 63]), SIZES, "level starts [0, 63]"),
    "int32 starts": (
        resize("level_start_index", lambda b: b[:4] + b[8:12]),
        SIZES,
        "level_start_index.bin has 1 entries of int64",
    ),
    "int32 shapes": (
        lambda f: np.array([[4, 6], [2, 3]], np.int32).tofile(f / "spatial_shapes.bin"),
        SIZES,
        "spatial_shapes.bin must be int64: its bytes look like int32, [4, 6], [2, 3]",
    ),
    "int32 shape of one level": (
        lambda f: np.array([[4, 6]], np.int32).tofile(f / "spatial_shapes.bin"),
        SIZES,
        "spatial_shapes.bin has 8 bytes: must be a multiple of 16 (int64 height and width)",
    ),
    "no gradient": (lambda f: None, [*SIZES, "backward=1"], "grad_output.bin does not exist"),
    "a folder as value": (
        lambda f: ((f / "value.bin").unlink(), (f / "value.bin").mkdir()),
        SIZES,
        "value.bin is not a file",
    ),
}


@pytest.mark.parametrize("mistake", FOLDERS)
def test_folder(msda, tmp_path, mistake):
    spoil, words, *fragments = FOLDERS[mistake]
    folder, target = tmp_path / "data", tmp_path / "out.npy"
    write_folder(folder, old_contract())
    if words == SIZES:  # else the folder is good and the words are not
        assert msda("run", f"dir={folder}", *words).returncode == 0
    spoil(folder)
    assert_refused(msda("run", f"dir={folder}", *words, f"output={target}"), "run", *fragments)
    assert not target.exists()


def test_no_folder(msda, tmp_path):
    assert_refused(msda("run", "--dir", tmp_path / "nowhere", *SIZES), "run", "is not a folder")


def test_next_run_is_right(msda, tmp_path):
    """A refused run leaves nothing behind that disturbs the next."""
    write_folder(tmp_path / "data", old_contract())
    for words, code in ((["batch=4"], 2), (["batch=3"], 0)) * 2:
        result = msda("run", f"dir={tmp_path / 'data'}", "queries=5", *words, "check=1")
        assert result.returncode == code
