//! Each mistake is an `Err` with a status and a message that names it; outputs stay untouched, and the next
//! valid call is right.

use std::time::Duration;

use msda::{
    Dtype, Error, Gradients, Handle, Inputs, Outputs, PlanOptions, Problem, Status, F8E4M3,
};

const VALUE: [f32; 4] = [1.0, 2.0, 3.0, 4.0];
const COORD: [f32; 2] = [0.5, 0.5];
const WEIGHT: [f32; 1] = [1.0];

fn problem() -> Problem {
    Problem::new(&[[2, 2]], Dtype::F32).points(1).queries(1).heads(1, 1)
}

fn expect(error: Error, status: Status, words: &[&str]) {
    assert_eq!(error.status(), status, "{error}");
    for word in words {
        assert!(error.message().contains(word), "'{error}' does not say '{word}'");
    }
}

#[test]
fn slices_of_the_wrong_length_or_type() {
    let plan = Handle::cpu(1).unwrap().plan(&problem()).unwrap();
    let mut output = [7.0f32];
    let error =
        plan.forward(&Inputs::sampled(&VALUE[..3], &COORD, &WEIGHT), &mut output).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["value has 3 elements: must have 4"]);
    let error =
        plan.forward(&Inputs::sampled(&VALUE, &COORD, &[1.0f32; 2]), &mut output).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["weight has 2 elements: must have 1"]);
    let error =
        plan.forward(&Inputs::sampled(&VALUE, &[0.5f64; 2], &WEIGHT), &mut output).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["coord is of F64: must be of F32"]);
    let error =
        plan.forward(&Inputs::sampled(&VALUE, &COORD, &WEIGHT), &mut [0.0f32; 2]).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["output has 2 elements: must have 1"]);
    assert_eq!(output, [7.0]);
    plan.forward(&Inputs::sampled(&VALUE, &COORD, &WEIGHT), &mut output).unwrap();
    assert_eq!(output, [2.5]);
}

#[test]
fn calls_that_do_not_fit_the_plan() {
    let handle = Handle::cpu(1).unwrap();
    let sampled = Inputs::sampled(&VALUE, &COORD, &WEIGHT);
    let forward = handle.plan(&problem()).unwrap();
    let backward = handle.plan(&problem().backward()).unwrap();
    let mut result = [7.0f32];
    let error = backward.forward(&sampled, &mut result).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["forward", "plan made for backward"]);
    let error = forward.backward(&sampled, &[1.0f32], Gradients::new()).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["backward", "plan made for forward"]);
    let fused = Inputs::fused(&VALUE, &[0.5f32; 2], &COORD, &WEIGHT);
    let error = forward.forward(&fused, &mut result).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["must be Inputs::sampled"]);
    let gradients = Gradients::new().logit(&mut result);
    let error = backward.backward(&sampled, &[1.0f32], gradients).unwrap_err();
    let words = "the gradient of logit, a fused input, was asked of a sampled plan";
    expect(error, Status::INVALID_ARGUMENT, &[words]);
    let error = forward.forward(&sampled.value_scale(&[1.0f32]), &mut result).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["value_scale", "F8E4M3"]);
    assert_eq!(result, [7.0]);
}

#[test]
fn attention_weights() {
    let handle = Handle::cpu(1).unwrap();
    let problem = problem().points(2).fused(2);
    let (reference, offset, logit) = ([0.5f32; 2], [0.0f32; 4], [0.0f32, 3f32.ln()]);
    let fused = Inputs::fused(&VALUE, &reference, &offset, &logit);
    let plan = handle.plan(&problem).unwrap();
    let (mut output, mut attention) = ([7.0f32], [7.0f32; 2]);

    let error =
        plan.forward(&fused, Outputs::new(&mut output).attention(&mut [7.0f32; 3])).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["attention has 3 elements: must have 2"]);
    let error =
        plan.forward(&fused, Outputs::new(&mut output).attention(&mut [7.0f64; 2])).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["attention is of F64: must be of F32"]);
    let sampled = handle.plan(&self::problem()).unwrap();
    let error = sampled
        .forward(
            &Inputs::sampled(&VALUE, &COORD, &WEIGHT),
            Outputs::new(&mut output).attention(&mut attention[..1]),
        )
        .unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["tensors.attention", "MSDA_INPUT_SAMPLED"]);
    assert_eq!((output, attention), ([7.0], [7.0; 2]));

    plan.forward(&fused, Outputs::new(&mut output).attention(&mut attention)).unwrap();
    assert_eq!(output, [2.5]);
    assert!((attention[0] - 0.25).abs() < 1e-6 && (attention[1] - 0.75).abs() < 1e-6);
}

#[test]
fn problems_that_make_no_sense() {
    let handle = Handle::cpu(1).unwrap();
    let error = handle.plan(&problem().batch(-1)).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["batch", "-1"]);
    let error = handle.plan(&problem().queries(i64::MAX)).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &[]);
    let error = handle.plan(&problem().points_by_level(&[1, 1])).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["points_by_level has 2 entries: must have 1"]);
    let error = handle.plan(&problem().fused(3)).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["reference_dim", "3"]);
    let error = handle.explain(&problem().value_strides([-1, 1, 1])).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["value_strides", "-1"]);
}

#[test]
fn kernels_that_cannot() {
    let handle = Handle::cpu(1).unwrap();
    let forced = |id: &str| PlanOptions { kernel_id: Some(id.into()), ..Default::default() };
    let error = handle.plan_with(&problem(), &forced("no.such@1")).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["no.such@1"]);
    let doubles = Problem::new(&[[2, 2]], Dtype::F64).points(1).queries(1).heads(1, 1);
    let error = handle.plan_with(&doubles, &forced("simd.cpu.f32@2")).unwrap_err();
    expect(error, Status::UNSUPPORTED, &["simd.cpu.f32@2"]);
    let error = handle.plan_with(&problem(), &forced("a\0b")).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["kernel_id", "NUL"]);
}

#[test]
fn handles() {
    expect(Handle::cpu(-1).unwrap_err(), Status::INVALID_ARGUMENT, &["thread_count", "-1"]);
    assert_eq!(Status::CUDA.name(), "MSDA_ERROR_CUDA");
}

/// A budget that no clock uses up: tuning stops after some hundred runs.
const AMPLE: Duration = Duration::from_secs(1 << 30);

#[test]
fn tuning() {
    let handle = Handle::cpu(1).unwrap();
    let options = PlanOptions::default();
    let inputs = Inputs::sampled(&VALUE, &COORD, &WEIGHT);
    let mut output = [7.0f32];
    let none = Duration::ZERO;
    let error = handle.tune_forward(&problem(), &options, &inputs, &mut output, none).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["budget_ms is 0: must be"]);
    let short = Inputs::sampled(&VALUE[..3], &COORD, &WEIGHT);
    let error = handle.tune_forward(&problem(), &options, &short, &mut output, AMPLE).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["value has 3 elements: must have 4"]);
    let backward = problem().backward();
    let error = handle.tune_forward(&backward, &options, &inputs, &mut output, AMPLE).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["tune_forward", "made for backward"]);
    let both = PlanOptions { kernel_id: Some("ref.cpu@1".into()), tuned: true, ..options.clone() };
    let error = handle.tune_forward(&problem(), &both, &inputs, &mut output, AMPLE).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["tuned is true: kernel_id must be None"]);
    assert_eq!(output, [7.0]);
    assert_eq!(handle.tuning_export().unwrap(), "libmsda tuning records 3\n");

    let plan = handle.tune_forward(&problem(), &options, &inputs, &mut output, AMPLE).unwrap();
    assert_eq!(output, [2.5]);
    let gradients = Gradients::new().weight(&mut output);
    let grad_output = [2.0f32];
    (handle.tune_backward(&backward, &options, &inputs, &grad_output, gradients, AMPLE)).unwrap();
    assert_eq!(output, [5.0]);
    let records = handle.tuning_export().unwrap();
    assert_eq!(records.lines().count(), 3);
    let id = plan.info().unwrap().kernel_id;
    assert!(records.contains(&format!(" kernel={id} ")), "{records}");
}

#[test]
fn tuning_records() {
    let options = PlanOptions::default();
    let inputs = Inputs::sampled(&VALUE, &COORD, &WEIGHT);
    let tuned = PlanOptions { tuned: true, ..options.clone() };
    let handle = Handle::cpu(1).unwrap();
    let heuristic = handle.plan_with(&problem(), &tuned).unwrap().info().unwrap().kernel_id;
    assert_eq!(heuristic, handle.plan(&problem()).unwrap().info().unwrap().kernel_id);
    handle.tune_forward(&problem(), &options, &inputs, &mut [0.0f32], AMPLE).unwrap();
    let mut records = handle.tuning_export().unwrap();
    for kernel in handle.kernels().unwrap() {
        records = records.replace(&format!(" kernel={} ", kernel.id), " kernel=ref.cpu@1 ");
    }
    let other = Handle::cpu(1).unwrap();
    other.tuning_import(&records).unwrap();
    assert_eq!(other.tuning_export().unwrap(), records);
    let plan = other.plan_with(&problem(), &tuned).unwrap();
    assert_eq!(plan.info().unwrap().kernel_id, "ref.cpu@1");
    let error = other.tuning_import("records").unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["line 1", "is cut off after 'records'"]);
    let error = other.tuning_import(&records.replace("batch=1", "batch=-1")).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["line 2", "batch is -1"]);
    let error = other.tuning_import("libmsda tuning records 4\n").unwrap_err();
    expect(error, Status::STALE_PLAN, &["format 3"]);
    assert_eq!(other.tuning_export().unwrap(), records);
}

#[test]
fn damaged_and_foreign_blobs() {
    let handle = Handle::cpu(1).unwrap();
    let blob = handle.plan(&problem()).unwrap().serialize().unwrap();
    let plan = handle.deserialize(&blob, &problem()).unwrap();
    let mut output = [0.0f32];
    plan.forward(&Inputs::sampled(&VALUE, &COORD, &WEIGHT), &mut output).unwrap();
    assert_eq!(output, [2.5]);
    for length in [0, 1, blob.len() - 1] {
        let error = handle.deserialize(&blob[..length], &problem()).unwrap_err();
        expect(error, Status::INVALID_ARGUMENT, &["blob"]);
    }
    let error = handle.deserialize(&blob, &problem().queries(2)).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["another problem"]);
}

#[test]
fn strides_borders_scales_and_empty_tensors() {
    let handle = Handle::cpu(2).unwrap();
    // One row of coordinates for three queries, and output rows two elements apart.
    let repeated = problem().queries(3).coord_strides([2, 0, 2]).output_strides([6, 2, 1]);
    let plan = handle.plan(&repeated).unwrap();
    let mut output = [7.0f32; 5];
    plan.forward(&Inputs::sampled(&VALUE, &COORD, &[1.0f32, 2.0, 3.0]), &mut output).unwrap();
    assert_eq!(output, [2.5, 7.0, 5.0, 7.0, 7.5]);
    let short = &mut output[..4];
    let error = plan.forward(&Inputs::sampled(&VALUE, &COORD, &[1.0f32; 3]), short).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["output has 4 elements: must have at least 5"]);

    // Rows of gradients two elements apart.
    let apart = problem().queries(2).backward().grad_weight_strides([4, 2, 1]);
    let plan = handle.plan(&apart).unwrap();
    let mut grad_weight = [7.0f32; 3];
    let inputs = Inputs::sampled(&VALUE, &[0.5f32; 4], &[1.0f32; 2]);
    plan.backward(&inputs, &[1.0f32, 2.0], Gradients::new().weight(&mut grad_weight)).unwrap();
    assert_eq!(grad_weight, [2.5, 7.0, 5.0]);
    let error = handle.plan(&apart.grad_coord_strides([4, 0, 2])).unwrap_err();
    expect(error, Status::INVALID_ARGUMENT, &["grad_coord_strides[1] is 0: must be at least 2"]);

    let bordered =
        Problem::new(&[[1, 1]], Dtype::F8E4M3).points(1).queries(1).heads(1, 1).bordered();
    let mut value = [F8E4M3(0); 9];
    value[4] = F8E4M3(0x38); // 1.0
    let mut output = [7.0f32];
    let inputs = Inputs::sampled(&value, &COORD, &WEIGHT).value_scale(&[3.0f32]);
    handle.plan(&bordered).unwrap().forward(&inputs, &mut output).unwrap();
    assert_eq!(output, [3.0]);

    let nothing: [f32; 0] = [];
    let plan = handle.plan(&problem().queries(0)).unwrap();
    plan.forward(&Inputs::sampled(&VALUE, &nothing, &nothing), &mut [0.0f32; 0]).unwrap();
}

#[test]
fn one_plan_on_many_threads_outlives_its_handle() {
    let plan = Handle::cpu(2).unwrap().plan(&problem()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut workspace = plan.workspace().unwrap();
                for _ in 0..100 {
                    let mut output = [0.0f32];
                    let inputs = Inputs::sampled(&VALUE, &COORD, &WEIGHT);
                    plan.forward_in(&mut workspace, &inputs, &mut output).unwrap();
                    assert_eq!(output, [2.5]);
                }
            });
        }
    });
}

#[test]
fn every_kernel_is_explained() {
    let handle = Handle::cpu(1).unwrap();
    let text = handle.explain(&problem()).unwrap();
    let kernels = handle.kernels().unwrap();
    assert!(kernels.len() >= 5);
    for kernel in kernels {
        assert!(text.contains(&kernel.id), "{text}");
        assert!(kernel.id.starts_with(&kernel.family));
    }
}
