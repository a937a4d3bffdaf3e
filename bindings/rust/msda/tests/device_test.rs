//! Streams and device slices of cudarc. Tests that need a GPU are ignored unless they are asked for; in the
//! repository, tests/rust_device runs them on a simulated one.
//!
//!     cargo test --features cudarc --test device_test -- --include-ignored    # --skip two_gpus with one
#![cfg(feature = "cudarc")]

#[allow(dead_code)] // other tests use more of it
#[path = "common/golden.rs"]
mod golden;

use std::sync::Arc;

use golden::Golden;
use msda::cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use msda::{DeviceSlice, Dtype, Gradients, Handle, Inputs, Outputs, Plan, Problem, Status};

const TOLERANCE: f64 = 2e-5;

fn device() -> (Handle, Arc<CudaStream>) {
    let handle = Handle::cuda(0).unwrap();
    (handle, CudaContext::new(0).unwrap().new_stream().unwrap())
}

/// The library says so before cudarc looks for the driver, and panics.
#[test]
fn no_gpu_is_one_clear_line() {
    if let Err(error) = Handle::cuda(0) {
        assert_eq!(error.status(), Status::CUDA, "{error}");
        assert!(error.message().contains("handle_options.device is 0"), "{error}");
        assert!(!error.message().contains('\n'), "{error}");
    }
}

fn upload(stream: &Arc<CudaStream>, case: &Golden, name: &str) -> CudaSlice<f32> {
    stream.clone_htod(&case.array_f32(name)).unwrap()
}

fn check(stream: &Arc<CudaStream>, case: &Golden, name: &str, result: &CudaSlice<f32>) {
    let actual = stream.clone_dtoh(result).unwrap();
    let exact = case.array(name);
    let largest = exact.iter().fold(f64::MIN_POSITIVE, |m, x| m.max(x.abs()));
    for (a, e) in actual.iter().zip(exact) {
        assert!((f64::from(*a) - e).abs() <= TOLERANCE * largest, "{name}: {a} and {e}");
    }
}

/// Against the weights that the CPU computes.
fn check_attention(
    stream: &Arc<CudaStream>,
    plan: &Plan,
    case: &Golden,
    inputs: &Inputs<DeviceSlice<'_>>,
) {
    let (outputs, logits) = (case.array("output").len(), case.array("logit").len());
    let mut output = stream.alloc_zeros::<f32>(outputs).unwrap();
    let mut attention = stream.alloc_zeros::<f32>(logits).unwrap();
    plan.forward_on(stream, inputs, Outputs::new(&mut output).attention(&mut attention)).unwrap();
    check(stream, case, "output", &output);

    let [value, reference, offset, logit] =
        ["value", "reference", "offset", "logit"].map(|name| case.array_f32(name));
    let host = Handle::cpu(1).unwrap().plan(&case.problem(Dtype::F32)).unwrap();
    let (mut output, mut exact) = (vec![0f32; outputs], vec![0f32; logits]);
    let inputs = Inputs::fused(&value, &reference, &offset, &logit);
    host.forward(&inputs, Outputs::new(&mut output).attention(&mut exact)).unwrap();
    for (a, e) in stream.clone_dtoh(&attention).unwrap().iter().zip(&exact) {
        assert!(*e > 0.0 && f64::from((a - e).abs()) <= TOLERANCE, "attention: {a} and {e}");
    }
}

#[test]
#[ignore = "needs a GPU"]
fn golden_vectors_on_a_stream() {
    let (handle, stream) = device();
    for file in golden::files() {
        let case = Golden::read(&file);
        let data: Vec<_> =
            case.input_names().iter().map(|name| upload(&stream, &case, name)).collect();
        let inputs = match &data[..] {
            [value, coord, weight] => Inputs::sampled(value, coord, weight),
            [value, reference, offset, logit] => Inputs::fused(value, reference, offset, logit),
            _ => unreachable!("three or four inputs"),
        };
        let mut output = stream.alloc_zeros::<f32>(case.array("output").len()).unwrap();
        let plan = handle.plan(&case.problem(Dtype::F32)).unwrap();
        plan.forward_on(&stream, &inputs, &mut output).unwrap();
        check(&stream, &case, "output", &output);
        if case.is_fused() {
            check_attention(&stream, &plan, &case, &inputs);
        }

        let mut grad_value = stream.alloc_zeros::<f32>(case.array("value").len()).unwrap();
        let grad_output = upload(&stream, &case, "grad_output");
        let plan = handle.plan(&case.problem(Dtype::F32).backward()).unwrap();
        let gradients = Gradients::new().value(&mut grad_value);
        plan.backward_on(&stream, &inputs, &grad_output, gradients).unwrap();
        check(&stream, &case, "grad_value", &grad_value);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn streams_wait_for_each_other() {
    let (handle, stream) = device();
    let other = stream.context().new_stream().unwrap();
    let case =
        Golden::read(golden::files().iter().find(|f| f.ends_with("encoder_small.npz")).unwrap());
    let plan = handle.plan(&case.problem(Dtype::F32)).unwrap();
    let mut workspace = plan.workspace_on(&stream).unwrap();
    for _ in 0..20 {
        let [value, coord, weight] =
            ["value", "coord", "weight"].map(|n| upload(&stream, &case, n));
        let mut output = other.alloc_zeros::<f32>(case.array("output").len()).unwrap();
        let inputs = Inputs::sampled(&value, &coord, &weight);
        plan.forward_on_in(&stream, &mut workspace, &inputs, &mut output).unwrap();
        plan.forward_on_in(&other, &mut workspace, &inputs, &mut output).unwrap();
        check(&other, &case, "output", &output);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn memory_of_the_wrong_kind_or_size() {
    let (handle, stream) = device();
    let problem = Problem::new(&[[2, 2]], Dtype::F32).points(1).queries(1).heads(1, 1);
    let [value, coord, weight] = [4, 2, 1].map(|n| stream.alloc_zeros::<f32>(n).unwrap());
    let inputs = Inputs::sampled(&value, &coord, &weight);
    let mut output = stream.alloc_zeros::<f32>(2).unwrap();
    let plan = handle.plan(&problem).unwrap();
    let error = plan.forward_on(&stream, &inputs, &mut output).unwrap_err();
    assert_eq!(error.message(), "output has 2 elements: must have 1");
    let plan = Handle::cpu(1).unwrap().plan(&problem).unwrap();
    let error = plan.forward_on(&stream, &inputs, &mut output).unwrap_err();
    assert!(error.message().contains("the plan is for the CPU"), "{error}");
}

#[test]
#[ignore = "needs two GPUs"]
fn two_gpus_are_told_apart() {
    let (handle, stream) = device();
    let other = CudaContext::new(1).unwrap().new_stream().unwrap();
    let plan =
        handle.plan(&Problem::new(&[[2, 2]], Dtype::F32).points(1).queries(1).heads(1, 1)).unwrap();
    let [value, coord, weight] = [4, 2, 1].map(|n| other.alloc_zeros::<f32>(n).unwrap());
    let mut output = other.alloc_zeros::<f32>(1).unwrap();
    let inputs = Inputs::sampled(&value, &coord, &weight);
    let error = plan.forward_on(&other, &inputs, &mut output).unwrap_err();
    assert_eq!(error.message(), "stream is of CUDA device 1: must be of 0, the plan's");
    let error = plan.forward_on(&stream, &inputs, &mut output).unwrap_err();
    assert_eq!(error.message(), "a tensor is on CUDA device 1: must be on 0, the stream's");
}
