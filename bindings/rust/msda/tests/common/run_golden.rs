//! One golden case through the crate, forward and backward, in one type for all tensors.

use msda::{Element, Error, Gradients, Handle, Inputs, PlanOptions};

use crate::golden::Golden;

pub trait Number: Element + Default {
    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
}
impl Number for f32 {
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    fn to_f64(self) -> f64 {
        self.into()
    }
}
impl Number for f64 {
    fn from_f64(x: f64) -> Self {
        x
    }
    fn to_f64(self) -> f64 {
        self
    }
}

/// The output and all gradients, by name.
pub fn run_all<T: Number>(
    handle: &Handle,
    case: &Golden,
    kernel_id: Option<&str>,
) -> Result<Vec<(String, Vec<T>)>, Error> {
    let options = PlanOptions { kernel_id: kernel_id.map(String::from), ..Default::default() };
    let problem = case.problem(T::DTYPE).coord_dtype(T::DTYPE).weight_dtype(T::DTYPE);
    let convert =
        |name: &str| -> Vec<T> { case.array(name).iter().map(|&x| T::from_f64(x)).collect() };
    let names = case.input_names();
    let arrays: Vec<Vec<T>> = names.iter().map(|name| convert(name)).collect();
    let inputs = match &arrays[..] {
        [value, coord, weight] => Inputs::sampled(value, coord, weight),
        [value, reference, offset, logit] => Inputs::fused(value, reference, offset, logit),
        _ => unreachable!("three or four inputs"),
    };

    let mut output = vec![T::default(); case.array("output").len()];
    handle.plan_with(&problem, &options)?.forward(&inputs, &mut output)?;

    let mut grads: Vec<Vec<T>> =
        arrays.iter().map(|a| vec![T::from_f64(f64::NAN); a.len()]).collect();
    let grad_output = convert("grad_output");
    let gradients = match &mut grads[..] {
        [value, coord, weight] => Gradients::new().value(value).coord(coord).weight(weight),
        [value, reference, offset, logit] => {
            Gradients::new().value(value).reference(reference).offset(offset).logit(logit)
        }
        _ => unreachable!("three or four inputs"),
    };
    let backward = handle.plan_with(&problem.clone().backward(), &options)?;
    backward.backward(&inputs, &grad_output, gradients)?;

    let grad_names = names.iter().map(|name| format!("grad_{name}"));
    let mut results: Vec<(String, Vec<T>)> = grad_names.zip(grads).collect();
    results.push(("output".to_string(), output));
    Ok(results)
}
