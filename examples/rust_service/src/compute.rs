//! From the arrays of a request to those of its answer.

use std::time::Duration;

use msda::{Element, Gradients, Handle, Inputs, Plan, Problem};
use npyz::{AutoSerialize, Deserialize};

use crate::arrays::{Answer, Arrays};
use crate::refusal::Refusal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Forward,
    Backward,
}

const NAMES: [&str; 13] = [
    "level_hw",
    "points",
    "value",
    "coord",
    "weight",
    "reference",
    "offset",
    "logit",
    "grad_output",
    // The names that models have for level_hw, coord and weight, the latter with axes [L][P] for K.
    "spatial_shapes",
    "level_start_index",
    "sampling_locations",
    "attention_weights",
];

/// The .npz that answers a request, after at most `bytes` of arrays and a computation that is predicted to take
/// no longer than `time`.
pub fn answer(
    handle: &Handle,
    operation: Operation,
    npz: &[u8],
    bytes: usize,
    time: Duration,
) -> Result<Vec<u8>, Refusal> {
    let arrays = Arrays::unpack(npz, &NAMES, bytes)?;
    match arrays.type_of("value")?.as_str() {
        "f4" => Request::<f32>::read(&arrays, operation)?.compute(handle, bytes, time),
        "f8" => Request::<f64>::read(&arrays, operation)?.compute(handle, bytes, time),
        other => Err(Refusal::bad(format!("value is of type {other}: must be f4 or f8"))),
    }
}

trait Number: Element + Default + Deserialize + AutoSerialize {}
impl Number for f32 {}
impl Number for f64 {}

struct Tensor<T> {
    name: &'static str,
    shape: Vec<usize>,
    data: Vec<T>,
}

impl<T: Number> Tensor<T> {
    fn read(arrays: &Arrays, name: &'static str, rank: usize) -> Result<Self, Refusal> {
        let (data, shape) = arrays.get(name)?;
        if shape.len() != rank {
            let found = shape.len();
            return Err(Refusal::bad(format!("{name} has {found} dimensions: must have {rank}")));
        }
        Ok(Tensor { name, shape, data })
    }

    fn expect(&self, shape: &[usize]) -> Result<(), Refusal> {
        if self.shape == shape {
            return Ok(());
        }
        let (name, found) = (self.name, &self.shape);
        Err(Refusal::bad(format!("{name} has shape {found:?}: must have {shape:?}")))
    }
}

/// value and coord and weight, or value, reference, offset and logit; their shapes fit each other. Coordinates and
/// weights have the names, and axes, that the request has for them.
struct Request<T> {
    problem: Problem,
    inputs: Vec<Tensor<T>>,
    grad_output: Option<Tensor<T>>,
    output_shape: [usize; 4],
}

impl<T: Number> Request<T> {
    fn read(arrays: &Arrays, operation: Operation) -> Result<Self, Refusal> {
        let usual = arrays.has("sampling_locations");
        let fused = !usual && arrays.has("reference");
        let sizes = if arrays.has("spatial_shapes") { "spatial_shapes" } else { "level_hw" };
        let levels = integers(arrays, sizes, 2)?;
        let names: &[(&'static str, usize)] = if usual {
            &[("value", 4), ("sampling_locations", 6), ("attention_weights", 5)]
        } else if fused {
            &[("value", 4), ("offset", 5), ("logit", 4), ("reference", 4)]
        } else {
            &[("value", 4), ("coord", 5), ("weight", 4)]
        };
        let inputs = (names.iter())
            .map(|&(name, rank)| Tensor::<T>::read(arrays, name, rank))
            .collect::<Result<Vec<_>, _>>()?;
        let (value, coord, weight) = (&inputs[0], &inputs[1], &inputs[2]);
        let tokens: i128 = levels.chunks(2).map(|hw| i128::from(hw[0]) * i128::from(hw[1])).sum();
        let [b, m, d, q] = [value.shape[0], value.shape[2], value.shape[3], coord.shape[1]];
        let starts_given = arrays.has("level_start_index"); // then other tokens may lie between the levels
        value.expect(&[
            b,
            if starts_given { value.shape[1] } else { tokens.max(0) as usize },
            m,
            d,
        ])?;
        let points = if usual {
            let (l, p) = (levels.len() / 2, coord.shape[4]);
            coord.expect(&[b, q, m, l, p, 2])?;
            weight.expect(&[b, q, m, l, p])?;
            vec![i32::try_from(p).unwrap_or(i32::MAX); l]
        } else {
            let points = integers(arrays, "points", 1)?;
            let k = points.iter().map(|&count| count.max(0) as usize).sum::<usize>();
            coord.expect(&[b, q, m, k, 2])?;
            weight.expect(&[b, q, m, k])?;
            points
        };

        let level_hw: Vec<[i32; 2]> = levels.chunks(2).map(|hw| [hw[0], hw[1]]).collect();
        let mut problem = Problem::new(&level_hw, T::DTYPE)
            .points_by_level(&points)
            .batch(signed(b)?)
            .queries(signed(q)?)
            .heads(signed(m)?, signed(d)?)
            .coord_dtype(T::DTYPE)
            .weight_dtype(T::DTYPE);
        if starts_given {
            let starts = integers(arrays, "level_start_index", 1)?;
            let starts: Vec<i64> = starts.into_iter().map(i64::from).collect();
            problem = problem.level_start(&starts).token_count(signed(value.shape[1])?);
        }
        if fused {
            let reference = &inputs[3];
            reference.expect(&[b, q, level_hw.len(), reference.shape[3]])?;
            problem = problem.fused(signed(reference.shape[3])? as i32);
        }
        let (mut grad_output, output_shape) = (None, [b, q, m, d]);
        if operation == Operation::Backward {
            problem = problem.backward();
            let tensor = Tensor::<T>::read(arrays, "grad_output", 4)?;
            tensor.expect(&output_shape)?;
            grad_output = Some(tensor);
        }
        Ok(Request { problem, inputs, grad_output, output_shape })
    }

    fn compute(&self, handle: &Handle, bytes: usize, time: Duration) -> Result<Vec<u8>, Refusal> {
        let plan = handle.plan(&self.problem)?;
        let info = plan.info()?;
        let predicted = info.predicted_us / 1e6;
        if predicted > time.as_secs_f64() {
            return Err(Refusal::unprocessable(format!(
                "the problem is predicted to take {predicted:.1} s: must take at most {} s",
                time.as_secs()
            )));
        }
        let result = self.output_shape.iter().try_fold(size_of::<T>(), |n, &m| n.checked_mul(m));
        let needed = result.and_then(|result| result.checked_add(info.workspace_bytes));
        if needed.is_none_or(|needed| needed > bytes.saturating_mul(2)) || result > Some(bytes) {
            return Err(Refusal::too_large(format!(
                "output of shape {:?}, with {} bytes to work in, is larger than {bytes} bytes",
                self.output_shape, info.workspace_bytes
            )));
        }
        let result = match &self.grad_output {
            None => self.forward(&plan)?,
            Some(grad_output) => self.backward(&plan, &grad_output.data)?,
        };
        result.map_err(|error| Refusal::internal(format!("no answer could be written: {error}")))
    }

    fn inputs(&self) -> Inputs<msda::Slice<'_>> {
        match &self.inputs[..] {
            [value, offset, logit, reference] => {
                Inputs::fused(&value.data, &reference.data, &offset.data, &logit.data)
            }
            inputs => Inputs::sampled(&inputs[0].data, &inputs[1].data, &inputs[2].data),
        }
    }

    fn forward(&self, plan: &Plan) -> Result<std::io::Result<Vec<u8>>, msda::Error> {
        let mut output = vec![T::default(); self.output_shape.iter().product()];
        plan.forward(&self.inputs(), &mut output)?;
        let mut answer = Answer::new();
        Ok(answer.add("output", &self.output_shape, output).and_then(|()| answer.finish()))
    }

    fn backward(
        &self,
        plan: &Plan,
        grad_output: &[T],
    ) -> Result<std::io::Result<Vec<u8>>, msda::Error> {
        let mut grads: Vec<Vec<T>> =
            self.inputs.iter().map(|input| vec![T::default(); input.data.len()]).collect();
        let gradients = match &mut grads[..] {
            [value, offset, logit, reference] => {
                Gradients::new().value(value).offset(offset).logit(logit).reference(reference)
            }
            [value, coord, weight] => Gradients::new().value(value).coord(coord).weight(weight),
            _ => unreachable!("three or four inputs"),
        };
        plan.backward(&self.inputs(), grad_output, gradients)?;
        let mut answer = Answer::new();
        let written = self.inputs.iter().zip(grads).try_for_each(|(input, grad)| {
            answer.add(&format!("grad_{}", input.name), &input.shape, grad)
        });
        Ok(written.and_then(|()| answer.finish()))
    }
}

/// level_hw [L,2], points [L] and the like, which numpy makes of int64 unless it is told otherwise.
fn integers(arrays: &Arrays, name: &'static str, rank: usize) -> Result<Vec<i32>, Refusal> {
    let (numbers, shape) = match arrays.type_of(name)?.as_str() {
        "i4" => {
            arrays.get::<i32>(name).map(|(n, s)| (n.into_iter().map(i64::from).collect(), s))?
        }
        "i8" => arrays.get::<i64>(name)?,
        other => return Err(Refusal::bad(format!("{name} is of type {other}: must be i4 or i8"))),
    };
    if shape.len() != rank || (rank == 2 && shape[1] != 2) {
        let wanted = if rank == 2 { "[L, 2]" } else { "[L]" };
        return Err(Refusal::bad(format!("{name} has shape {shape:?}: must have {wanted}")));
    }
    let small = |number: i64| {
        i32::try_from(number)
            .map_err(|_| Refusal::bad(format!("{name} has {number} in it: must be an int32")))
    };
    Vec::into_iter(numbers).map(small).collect()
}

fn signed(size: usize) -> Result<i64, Refusal> {
    i64::try_from(size).map_err(|_| Refusal::bad(format!("{size} is too large for a dimension")))
}
