"""tools/check gpu passes where all is well, and fails for each fault that it is there to find."""

import collections
import os
import pathlib
import re

import pytest
from conftest import PROGRAMS, ROOT, gpu_cases


COUNTS = collections.Counter((program, suite) for program, suite, _ in gpu_cases())
KERNEL_COUNT = COUNTS["msda_test_kernel", "gpu"]
CONTRACT_COUNT = COUNTS["msda_test_contract", "gpu"]
PTX_COUNT = COUNTS["msda_test_ptx", "gpu"]
TWO_GPU_COUNT = COUNTS["msda_test_kernel", "two gpus"]
# Test cases of a process, or of the shards of one.
KERNEL_RUNS = {"timed": 2, "forward": 1, "backward": 1, "corpus": 2, "captures": 1, "bits": 1, "bits_backward": 1, "large": 2,
               "limits": 1, "golden": 1, "launches": 1, "others": KERNEL_COUNT - 14}
# What each sanitizer runs: the limit of multiprocessors, the shard and how many test cases.
SANITIZED = {
    "corpus": ("0", "1/16", 2),
    "random": ("0", "1/1", 2),
    "golden": ("0", "1/1", 1),
    "others": ("0", "1/1", KERNEL_COUNT - 22),  # all but those named above, and 17 that take too long
    "on_1_sm": ("1", "2/32", 2),
    "on_3_sms": ("3", "3/32", 2),
    "random_on_1_sm": ("1", "1/4", 2),
    "random_on_3_sms": ("3", "2/4", 2),
}


PARTS = ("build", "tests", "sanitize", "soak", "bench", "python", "models", "jax", "plugins", "multi")


def part_results(summary):
    return dict(re.findall(r"^(\w+) +(passed|FAILED) ", summary, re.MULTILINE))


def test_passes_where_all_is_well(machine):
    status, summary, before = machine.check()
    assert status == 0, before + summary
    assert part_results(summary) == dict.fromkeys(PARTS, "passed")
    ran = {name: int(count) for name, count in re.findall(r' (\w+): (\d+) test cases of suite "gpu", ', summary)}
    assert ran == KERNEL_RUNS | {"contract": CONTRACT_COUNT, "ptx": PTX_COUNT}
    # Random problems: so many forward, so many backward; what else runs has its own numbers.
    numbers = {log.stem: log.read_text().split()[2] for log in machine.results.glob("tests_*_1.log")}
    assert {name: number for name, number in numbers.items() if number != "default"} == {
        "tests_forward_1": "2100", "tests_backward_1": "500"}
    assert len(numbers) == len(ran)
    assert f"skipped: {TWO_GPU_COUNT} test cases for two GPUs: there is one" in summary
    assert summary.count(": found the planted bug: ") == 4
    assert "    4 tests of Python ran, 2 of them on CUDA\n" in summary
    assert "    1000000 calls of 2 threads in 9.0 s; 5 plans made\n    7 comparisons of results, all equal; " in summary
    assert "\n    device memory: 100 bytes after 1000 calls, 100 at the end, 100 at most\n" in summary
    assert "    2 figures of models were measured\n" in summary
    assert re.search("^jax .*\n    2 tests of Python ran, 1 of them on CUDA$", summary, re.MULTILINE)
    assert re.search("^plugins .*\n    skipped: tests/onnx: onnxruntime has no CUDAExecutionProvider: .'CPUExecutionProvider'.\n"
                     "    2 tests of Python ran, 1 of them on CUDA$", summary, re.MULTILINE)
    assert re.search("^multi .*\n    skipped: there is one GPU$", summary, re.MULTILINE)
    runs = re.findall(r"^ +(\w+), (\w+): (\d+) test cases, \w+ SUMMARY: 0", summary, re.MULTILINE)
    assert len(runs) == len({run[:2] for run in runs}) == 4 * len(SANITIZED)
    for tool, name, count in runs:
        log = (machine.results / f"sanitize_{tool}_{name}.log").read_text()
        assert f"[random ] 12 problems, sm limit {SANITIZED[name][0]}\n[shard  ] {SANITIZED[name][1]}\n" in log
        assert int(count) == SANITIZED[name][2] + (tool == "memcheck" and name == "others")
    assert re.search(r"\[baseline\] 14 rows, 0 of them new;( 0 [a-z ]+,)+ 0 gone;", summary), summary


@pytest.mark.parametrize(
    ("fault", "parts", "said"),
    [
        ("no_handle", ["tests", "sanitize"], r": 0 of the \d+ test cases chosen from suite \"gpu\" ran"),
        ("one_less", ["tests", "sanitize"], r": 0 of the 1 test cases chosen from suite \"gpu\" ran"),
        ("ends_early", ["tests", "sanitize"], r": none of the 1 test cases"),
        ("wrong_element", ["tests", "sanitize", "bench"], r"FAILED: msda bench: f16 main fast --fused 2"),
        ("plant_not_found", ["sanitize"], r"FAILED: racecheck: the planted bug was not found: exit status 0 "),
        ("plant_of_another_tool", ["sanitize"], r"FAILED: synccheck: the planted bug was not found: exit status 9 "),
        ("sanitizer_crashes", ["sanitize"], r"FAILED: initcheck: the planted bug was not found: exit status 255 "),
        ("finding", ["sanitize"], r"FAILED: initcheck, on_3_sms"),
        ("warning", ["sanitize"], r"FAILED: racecheck, on_1_sm"),
        ("no_summary", ["sanitize"], r"FAILED: memcheck, others"),
        ("wrong_bits", ["soak"], r"    msda_soak: call 53, problem 38 .*\n    FAILED: msda_soak\n"),
        ("leak", ["soak"], r"    msda_soak: device memory grew from 100 bytes\n    FAILED: msda_soak\n"),
        ("slower", ["bench"], r"f16 +f32 +fast +fused2 +100\.0 +150\.0 us +1\.500  revision 1 -> 2  SLOWER"),
        ("slower_gradients", ["bench"], r"dec +backward +direct\.sm75\.f16\.dany\.pany .* 150\.0 us +1\.500 .* SLOWER"),
        ("larger_error", ["bench"], r"LARGER ERROR: error_share 0\.2 -> 0\.8"),
        ("lost_row", ["bench"], r"direct\.sm75\.bf16\.dany\.pany .* NOT MEASURED"),
        ("bench_stops", ["bench"], r"FAILED: msda bench: f16 main fast --fused 2"),
        ("python_fails", ["python"], r"FAILED: pytest of tests/torch\n"),
        ("python_ends_early", ["python"], r"FAILED: pytest of tests/torch\n"),
        ("python_skips", ["python"], r"FAILED: tests.torch.test_call\[cuda\] was skipped: CUDA cannot be used"),
        ("python_without_gpu", ["python"], r"FAILED: no test of Python ran on CUDA"),
        ("models_differ", ["models"], r"WRONG: training: 30 steps of module ended in other bits"),
        ("models_end_early", ["models"], r" 0 figures of models were measured"),
        ("python_fails", ["jax"], r"FAILED: pytest of tests/jax\n"),
        ("python_skips", ["jax"], r"FAILED: tests.jax.test_call\[cuda\] was skipped: CUDA cannot be used"),
        ("python_without_gpu", ["jax"], r"FAILED: no test of Python ran on CUDA"),
        ("python_fails", ["plugins"], r"FAILED: pytest of tests/tensorrt\n"),
        ("python_without_gpu", ["plugins"], r"FAILED: no test of Python ran on CUDA"),
    ],
)
def test_a_fault_fails_its_parts_and_is_named(machine, fault, parts, said):
    status, summary, before = machine.check(*parts, fault=fault)
    assert status == 1
    assert part_results(summary) == dict.fromkeys(parts, "FAILED"), before + summary
    assert re.search(said, summary), summary


def test_a_test_that_needs_a_machine_without_a_gpu_may_be_skipped(machine):
    status, summary, _ = machine.check("python", fault="python_needs_no_gpu")
    assert status == 0 and "tests.torch.test_call[cuda] was skipped: there is a GPU" in summary


def test_onnx_runtime_with_cuda_is_tested(machine):
    status, summary, _ = machine.check("plugins", STUB_PROVIDERS="CUDAExecutionProvider CPUExecutionProvider")
    assert status == 0 and "    4 tests of Python ran, 2 of them on CUDA\n" in summary and "onnxruntime has no" not in summary
    status, summary, _ = machine.check("plugins", fault="python_fails", STUB_PROVIDERS="CUDAExecutionProvider")
    assert status == 1 and "FAILED: pytest of tests/onnx\n" in summary


def test_a_build_that_fails_ends_it(machine):
    status, summary, _ = machine.check(fault="does_not_build")
    assert status == 1 and part_results(summary) == {"build": "FAILED"}
    for part in PARTS[1:]:
        assert f"skipped: {part} (the build failed)" in summary


def test_no_gpu_ends_it(machine):
    status, summary, before = machine.check(fault="no_gpu")
    assert status == 1 and summary == "" and "no NVIDIA GPU" in before


@pytest.mark.parametrize(
    ("name", "parts", "said"),
    [
        ("", ["tests", "sanitize"], 'msda_test_kernel has no test case of suite "gpu" that --test-case=*inside'),
        (", on the GPU", ["tests"], 'msda_test_contract has no test case of suite "gpu"\n'),
        ("random problems backward", ["tests"],
         'msda_test_kernel has no test case of suite "gpu" that --test-case=random problems backward'),
        ("2^31 elements", ["sanitize"], "no test case is called '*2^31 elements*', which the sanitizers leave out"),
    ],
)
def test_a_filter_that_chooses_nothing_fails(machine, name, parts, said):
    """As where the suite, or a test case that is asked for by its name, was renamed."""
    machine.set_cases([case for case in gpu_cases() if name not in case[2]])
    status, summary, before = machine.check(*parts)
    assert status == 1
    assert part_results(summary) == dict.fromkeys(parts, "FAILED"), before + summary
    assert f"FAILED: {said}" in summary, summary


@pytest.mark.parametrize(("cores", "shards"), [("1", {}), ("3", {"forward": 3, "corpus": 3}),
                      ("64", {"forward": 21, "corpus": 4})])
def test_random_problems_are_shared_by_the_cores(machine, cores, shards):
    status, summary, before = machine.check("tests", OMP_NUM_THREADS=cores)
    assert status == 0, summary
    used = {name: int(count) for name, count in re.findall(r"^(\w+): .*, (\d+) processes, ", before, re.MULTILINE)}
    assert {name: count for name, count in used.items() if count > 1} == shards
    for name, count in shards.items():  # each of which has taken two problems
        assert name not in ("forward", "backward") or f"took {2 * count} problems, largest error 0.50" in summary
    for name in ("forward", "backward", "corpus", "others"):
        count = shards.get(name, 1)
        for number in range(1, 1 + count):
            assert f"[shard  ] {number}/{count}\n" in (machine.results / f"tests_{name}_{number}.log").read_text()


def test_a_shard_that_fails_fails_the_tests(machine):
    status, summary, before = machine.check("tests", fault="wrong_problem", OMP_NUM_THREADS="3")
    assert status == 1 and part_results(summary) == {"tests": "FAILED"}
    assert 'FAILED: tests_forward_2: "random problems forward on the GPU"\n' in summary
    assert 'forward: 1 test cases of suite "gpu", 3 processes, 3 assertions, 1 failed, ' in summary
    assert "[shard  ] 2/3" in before and "[shard  ] 1/3" not in before


def test_two_gpus_have_to_be_used(machine):
    def two_gpus_line(**options):
        status, summary, _ = machine.check("tests", **options)
        return status, [re.sub(", within.*", "", line.strip()) for line in summary.splitlines() if "two " in line.lower()]

    count = TWO_GPU_COUNT
    status, lines = two_gpus_line(STUB_GPUS="2")
    ran = f'two_gpus_msda_test_kernel: {count} test cases of suite "two gpus", 1 processes, {count} assertions, 0 failed'
    assert status == 0 and lines == [ran]
    status, lines = two_gpus_line(STUB_GPUS="2", fault="second_gpu_skipped")
    assert status == 1 and any(
        line.endswith(f': 0 of the {count} test cases chosen from suite "two gpus" ran') for line in lines)
    # Only one of them may be seen.
    status, lines = two_gpus_line(STUB_GPUS="2", CUDA_VISIBLE_DEVICES="1", fault="second_gpu_skipped")
    assert status == 0 and lines == [f"skipped: {count} test cases for two GPUs: there is one"]


def test_what_needs_several_gpus_is_a_part(machine):
    status, summary, _ = machine.check("multi", STUB_GPUS="2")
    assert status == 0 and part_results(summary) == {"multi": "passed"}
    assert f'{TWO_GPU_COUNT} test cases of suite "two gpus"' in summary
    assert summary.count("    2 tests of Python ran, 1 of them on CUDA\n") == 3
    for fault, said in [("python_skips", r"FAILED: tests.distributed.test_call\[cuda\] was skipped"),
                        ("python_without_gpu", "FAILED: no test of Python ran on CUDA"),
                        ("second_gpu_skipped", 'chosen from suite "two gpus" ran')]:
        status, summary, _ = machine.check("multi", STUB_GPUS="2", fault=fault)
        assert status == 1 and re.search(said, summary), summary
    (machine.folder / "tests" / "jax" / "test_two_gpus.py").unlink()
    status, summary, _ = machine.check("multi", STUB_GPUS="2")
    assert status == 1 and "FAILED: there is no tests/jax/test_two_gpus.py\n" in summary


@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_no_problems_are_no_test(machine, value):
    status, _, before = machine.check("tests", MSDA_TEST_PROBLEMS=value)
    assert status == 1 and f"must be at least 1, not '{value}'" in before


def test_the_number_of_problems_can_be_chosen(machine):
    status, summary, _ = machine.check("tests", MSDA_TEST_PROBLEMS="7")
    logs = [log.read_text() for log in machine.results.glob("tests_*.log")]
    assert status == 0 and logs and all(log.startswith("[random ] 7 problems") for log in logs)


def test_the_real_tests_fail_where_no_handle_can_be_created(machine):
    """nvidia-smi answers, and CUDA sees no device: the case in which every GPU test skips."""
    programs = pathlib.Path(os.environ.get("MSDA_CLI", ROOT / "build" / "release" / "bin" / "msda")).parent
    for program in PROGRAMS:
        if not (programs / program).exists():
            pytest.fail(f"{programs / program} does not exist: build it, or set MSDA_CLI")
        machine.install(f"build/release/bin/{program}", programs / program)
    status, summary, before = machine.check("tests", CUDA_VISIBLE_DEVICES="")
    assert status == 1 and part_results(summary) == {"tests": "FAILED"}, before + summary
    # Numbers of the programs' own summaries, by which what the stubs write is checked.
    chosen = re.findall(r'FAILED: tests_\w+: 0 of the (\d+) test cases chosen from suite "gpu" ran', summary)
    assert sum(map(int, chosen)) >= KERNEL_COUNT + CONTRACT_COUNT + PTX_COUNT, summary
    assert not re.search("[1-9][0-9]* assertions", summary), summary
