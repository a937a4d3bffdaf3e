//! Arrays and views of ndarray as tensors: results go into views, and shapes are checked, not only lengths.
#![cfg(feature = "ndarray")]

use msda::ndarray::{arr1, s, Array2, Array4, Array5, ArrayD, ArrayView4};
use msda::{Dtype, Gradients, Handle, Inputs, Plan, Problem, Status};

/// Two queries, one on pixel 0 and one on pixel 3 of a 2 x 2 map with two channels.
fn problem() -> Problem {
    Problem::new(&[[2, 2]], Dtype::F32).points(1).queries(2).heads(1, 2)
}

struct Case {
    value: Array4<f32>,
    coord: Array5<f32>,
    weight: Array4<f32>,
}

fn case() -> Case {
    let value = Array4::from_shape_fn((1, 4, 1, 2), |(_, s, _, d)| (10 * s + d) as f32);
    let coord = arr1(&[0.25f32, 0.25, 0.75, 0.75]).into_shape_with_order((1, 2, 1, 1, 2)).unwrap();
    Case { value, coord, weight: Array4::from_elem((1, 2, 1, 1), 2.0) }
}

fn plan(problem: &Problem) -> Plan {
    Handle::cpu(1).unwrap().plan(problem).unwrap()
}

#[test]
fn views_in_and_out() {
    let Case { value, coord, weight } = case();
    let (value, weight) = (value.view(), weight.view());
    let inputs = Inputs::sampled(&value, &coord, &weight);
    let mut rows = Array2::<f32>::zeros((3, 4));
    // The middle row of an array, seen as the output.
    let mut output = rows.slice_mut(s![1..2, ..]).into_shape_with_order((1, 2, 1, 2)).unwrap();
    plan(&problem()).forward(&inputs, &mut output).unwrap();
    assert_eq!(rows.row(1).to_vec(), [0.0, 2.0, 60.0, 62.0]);
    assert!(rows.row(0).iter().chain(rows.row(2)).all(|&x| x == 0.0));
}

#[test]
fn gradients_into_arrays() {
    let Case { value, coord, weight } = case();
    let grad_output = Array4::<f32>::ones((1, 2, 1, 2));
    let (mut grad_value, mut grad_weight) =
        (Array4::<f32>::zeros(value.dim()), Array4::<f32>::zeros(weight.dim()));
    plan(&problem().backward())
        .backward(
            &Inputs::sampled(&value, &coord, &weight),
            &grad_output,
            Gradients::new().value(&mut grad_value).weight(&mut grad_weight),
        )
        .unwrap();
    assert_eq!(grad_weight, Array4::from_shape_vec((1, 2, 1, 1), vec![1.0f32, 61.0]).unwrap());
    assert_eq!(
        grad_value.iter().copied().collect::<Vec<f32>>(),
        [2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 2.0, 2.0]
    );
}

fn refused(value: ArrayView4<'_, f32>, words: &str) {
    let Case { coord, weight, .. } = case();
    let mut output = Array4::<f32>::zeros((1, 2, 1, 2));
    let error = plan(&problem())
        .forward(&Inputs::sampled(&value, &coord, &weight), &mut output)
        .unwrap_err();
    assert_eq!(error.status(), Status::INVALID_ARGUMENT);
    assert_eq!(error.message(), words);
    assert!(output.iter().all(|&x| x == 0.0));
}

#[test]
fn shapes_and_layouts_that_do_not_fit() {
    let value = case().value;
    let heads_first = value.view().permuted_axes([0, 2, 1, 3]);
    refused(heads_first, "value has shape [1, 1, 4, 2]: must have [1, 4, 1, 2]");
    let wide = Array4::<f32>::zeros((1, 4, 1, 4));
    refused(
        wide.slice(s![.., .., .., ..2]),
        "value is an array with strides [8, 4, 2, 1]: must have [8, 2, 2, 1], as the problem says; \
         Problem::value_strides([8, 4, 2]) takes it as it is",
    );
    refused(
        value.slice(s![.., ..;-1, .., ..]),
        "value is an array with strides [8, -2, 2, 1]: must have [8, 2, 2, 1], as the problem says",
    );
    let every_second = Array4::<f32>::zeros((1, 4, 1, 4));
    refused(
        every_second.slice(s![.., .., .., ..;2]),
        "value is an array with strides [8, 4, 2, 2]: must have [8, 2, 2, 1], as the problem says",
    );
}

/// As in C, strides are the problem's, and a view that has them is read where it lies.
#[test]
fn views_with_the_strides_of_the_problem() {
    let Case { value, coord, weight } = case();
    let mut wide = Array4::<f32>::from_elem((1, 4, 1, 4), f32::NAN);
    wide.slice_mut(s![.., .., .., 1..3]).assign(&value);
    let view = wide.slice(s![.., .., .., 1..3]);
    let mut rows = Array4::<f32>::from_elem((1, 2, 1, 5), 7.0);
    let mut output = rows.slice_mut(s![.., .., .., 2..4]);
    let problem = problem().value_strides([16, 4, 4]).output_strides([10, 5, 5]);
    plan(&problem).forward(&Inputs::sampled(&view, &coord, &weight), &mut output).unwrap();
    assert_eq!(
        rows.iter().copied().collect::<Vec<f32>>(),
        [7.0, 7.0, 0.0, 2.0, 7.0, 7.0, 7.0, 60.0, 62.0, 7.0]
    );
    // A packed array of the same shape is another tensor than the problem's.
    let mut packed = Array4::<f32>::zeros((1, 2, 1, 2));
    let error =
        plan(&problem).forward(&Inputs::sampled(&view, &coord, &weight), &mut packed).unwrap_err();
    assert!(
        error
            .message()
            .starts_with("output is an array with strides [10, 2, 5, 1]: must have [10, 5, 5, 1]"),
        "{error}"
    );
}

/// Dimensions behind the sixth count, too: this array has no element.
#[test]
fn an_array_of_many_dimensions_without_elements() {
    let problem = Problem::new(&[[1, 1]], Dtype::F32)
        .points(1)
        .queries(1)
        .heads(1, 1)
        .value_strides([4, 2, 1]);
    let value = ArrayD::<f32>::zeros(vec![1, 1, 1, 1, 1, 1, 0]);
    let error = plan(&problem)
        .forward(&Inputs::sampled(&value, &[0.5f32; 2], &[1.0f32]), &mut [0.0f32])
        .unwrap_err();
    assert_eq!(error.message(), "value has 0 elements: must have at least 1");
}

#[test]
fn debug_is_for_people() {
    let plan = plan(&problem());
    let text = format!("{plan:?}");
    assert!(
        text.starts_with("Plan(PlanInfo { kernel_id: \"") && text.contains("workspace_bytes: "),
        "{text}"
    );
    let error = Handle::cpu(1).unwrap().plan(&problem().points(-1)).unwrap_err();
    let text = format!("{error:?}");
    assert!(text.starts_with("MSDA_ERROR_INVALID_ARGUMENT: ") && text.contains("-1"), "{text}");
}

/// With strides, packed arrays of another shape are memory: their length is checked.
#[test]
fn a_problem_with_strides_takes_arrays_that_hold_enough() {
    let Case { coord, weight, .. } = case();
    let value = Array4::from_shape_fn((1, 4, 1, 4), |(_, s, _, d)| (10 * s + d) as f32);
    let mut output = Array4::<f32>::zeros((1, 2, 1, 2));
    plan(&problem().value_strides([16, 4, 2]))
        .forward(&Inputs::sampled(&value, &coord, &weight), &mut output)
        .unwrap();
    assert_eq!(output.iter().copied().collect::<Vec<f32>>(), [0.0, 2.0, 60.0, 62.0]);
}
