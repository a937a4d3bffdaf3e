//! Every golden vector, forward and backward, against the exact results and against the `msda` command, which
//! goes through the C interface: those have to be equal to the last bit.

#[path = "common/golden.rs"]
mod golden;
#[path = "common/run_golden.rs"]
mod run_golden;

use std::path::Path;
use std::process::Command;

use golden::Golden;
use msda::{bf16, f16, Dtype, Element, Handle, Inputs};
use run_golden::{run_all, Number};

const FLOAT32_TOLERANCE: f64 = 2e-5;
const FLOAT64_TOLERANCE: f64 = 1e-12;

/// In pixels: more than float32 coordinates of the golden files are rounded by.
const LINE_DISTANCE: f64 = 1e-5;

/// Largest error as a share of the largest element.
fn error_share(actual: &[f64], exact: &[f64]) -> f64 {
    assert_eq!(actual.len(), exact.len());
    let largest = exact.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let error = actual.iter().zip(exact).map(|(a, e)| (a - e).abs()).fold(0.0f64, |m, x| {
        assert!(!x.is_nan());
        m.max(x)
    });
    error / largest.max(f64::MIN_POSITIVE)
}

/// Takes numbers on pixel lines out of the comparison: float32 coordinates may lie on either side of them, and the
/// C++ tests compare with both. In float64 the right-hand derivative is compared like any other number.
fn accept_either_side_of_lines(actual: &mut [f64], exact: &[f64], distances: &[f64]) {
    assert!(actual.iter().all(|x| x.is_finite()));
    for ((a, e), distance) in actual.iter_mut().zip(exact).zip(distances) {
        if *distance < LINE_DISTANCE {
            *a = *e;
        }
    }
}

fn check_all_files<T: Number>(tolerance: f64) {
    let handle = Handle::cpu(2).unwrap();
    let files = golden::files();
    assert!(files.len() >= 15, "only {} golden files", files.len());
    for file in files {
        let case = Golden::read(&file);
        for (name, actual) in run_all::<T>(&handle, &case, Some("ref.cpu@1")).unwrap() {
            let mut actual: Vec<f64> = actual.iter().map(|x| x.to_f64()).collect();
            let exact = case.array(&name);
            if name == "grad_coord" && T::DTYPE == Dtype::F32 {
                accept_either_side_of_lines(&mut actual, exact, &case.distances_from_lines());
            }
            let share = error_share(&actual, exact);
            assert!(share < tolerance, "{}: {name} is off by {share:e}", file.display());
        }
    }
}

#[test]
fn float64_results_are_exact() {
    check_all_files::<f64>(FLOAT64_TOLERANCE);
}

#[test]
fn float32_results_are_within_tolerance() {
    check_all_files::<f32>(FLOAT32_TOLERANCE);
}

/// value and output in 16 bits, coordinates and weights in float32; golden values are exact in both types.
fn check_16_bits<T: Element + Default>(to: fn(f64) -> T, from: fn(T) -> f64, tolerance: f64) {
    let handle = Handle::cpu(2).unwrap();
    for file in golden::files() {
        let case = Golden::read(&file);
        if case.is_fused() {
            continue;
        }
        let plan = handle.plan(&case.problem(T::DTYPE)).unwrap();
        let value: Vec<T> = case.array("value").iter().map(|&x| to(x)).collect();
        let (coord, weight) = (case.array_f32("coord"), case.array_f32("weight"));
        let mut output = vec![T::default(); case.array("output").len()];
        plan.forward(&Inputs::sampled(&value, &coord, &weight), &mut output).unwrap();
        let output: Vec<f64> = output.into_iter().map(from).collect();
        let share = error_share(&output, case.array("output"));
        assert!(share < tolerance, "{}: off by {share:e}", file.display());
    }
}

#[test]
fn float16_outputs_are_rounded_once() {
    check_16_bits(f16::from_f64, f16::to_f64, 1.0 / 2048.0 + FLOAT32_TOLERANCE);
}

#[test]
fn bfloat16_outputs_are_rounded_once() {
    check_16_bits(bf16::from_f64, bf16::to_f64, 1.0 / 256.0 + FLOAT32_TOLERANCE);
}

/// What the command computes from a file, as the bits of float32 or float64 numbers.
fn command_results(command: &str, file: &Path, dtype: &str, backward: bool) -> Golden {
    let suffix = if backward { "backward" } else { "forward" };
    let stem = file.file_stem().unwrap().to_string_lossy();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let output = folder.join(format!("{stem}_{dtype}_{suffix}.npz"));
    let mut run = Command::new(command);
    run.args(["run", "--kernel", "ref.cpu@1", "--value-dtype", dtype, "--coord-dtype", dtype]);
    run.args(["--weight-dtype", dtype, "--npz"]).arg(file).arg("--output").arg(&output);
    if backward {
        run.arg("--backward");
    }
    let result = run.output().expect("MSDA_CLI is the msda command");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    Golden::read_results(&output)
}

fn check_bits<T: Number>(dtype: &str) {
    let Ok(command) = std::env::var("MSDA_CLI") else {
        panic!("MSDA_CLI is not set: must be the path of the msda command")
    };
    let handle = Handle::cpu(2).unwrap();
    for file in golden::files() {
        let case = Golden::read(&file);
        let forward = command_results(&command, &file, dtype, false);
        let backward = command_results(&command, &file, dtype, true);
        for (name, actual) in run_all::<T>(&handle, &case, Some("ref.cpu@1")).unwrap() {
            let expected = if name == "output" { &forward } else { &backward };
            let bits: Vec<u64> = actual.iter().map(|x| x.to_f64().to_bits()).collect();
            let same: Vec<u64> = expected.array(&name).iter().map(|x| x.to_bits()).collect();
            assert_eq!(bits, same, "{}: {name} differs from the command's", file.display());
        }
    }
}

#[test]
fn float32_bits_are_those_of_the_command() {
    check_bits::<f32>("f32");
}

#[test]
fn float64_bits_are_those_of_the_command() {
    check_bits::<f64>("f64");
}

#[test]
fn default_kernel_is_the_fast_one() {
    let handle = Handle::cpu(1).unwrap();
    let case = Golden::read(&golden::files()[0]);
    let plan = handle.plan(&case.problem(Dtype::F32)).unwrap();
    assert_eq!(plan.info().unwrap().kernel_id, "simd.cpu.f32@2");
}
