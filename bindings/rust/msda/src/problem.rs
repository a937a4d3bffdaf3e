use msda_sys as sys;

use crate::element::Dtype;
use crate::error::{Error, Result};
use crate::tensor_table::{Row, Tensor, TENSORS};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Operation {
    #[default]
    Forward = sys::MSDA_FORWARD as i32,
    Backward = sys::MSDA_BACKWARD as i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum MathMode {
    #[default]
    Accurate = sys::MSDA_MATH_ACCURATE as i32,
    Fast = sys::MSDA_MATH_FAST as i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Determinism {
    #[default]
    Deterministic = sys::MSDA_DETERMINISTIC as i32,
    Nondeterministic = sys::MSDA_NONDETERMINISTIC as i32,
}

/// Where the points of neighbouring queries land: `msda_point_locality`. A hint that never changes what is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum PointLocality {
    #[default]
    Unknown = sys::MSDA_POINTS_UNKNOWN as i32,
    Local = sys::MSDA_POINTS_LOCAL as i32,
    Scattered = sys::MSDA_POINTS_SCATTERED as i32,
}

/// The pixels that a point samples: `msda_sampling_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum SamplingMode {
    #[default]
    Bilinear = sys::MSDA_SAMPLING_BILINEAR as i32,
    Nearest = sys::MSDA_SAMPLING_NEAREST as i32,
}

/// The shapes and types of one computation: `msda_problem`, whose fields say what each setter means. What is
/// not set has the library's default; sizes are 1 but for Q, M, D and P, which are 0. Tensors are packed
/// unless strides are given.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    level_hw: Vec<[i32; 2]>,
    point_counts: Option<Vec<i32>>,
    query_hw: Vec<[i32; 2]>,
    level_start: Option<Vec<i64>>,
    token_count: i64,
    batch: i64,
    query_count: i64,
    head_count: i64,
    head_dim: i64,
    point_count: i32,
    value_strides: [i64; 3],
    coord_strides: [i64; 3],
    weight_strides: [i64; 3],
    output_strides: [i64; 3],
    grad_coord_strides: [i64; 3],
    grad_weight_strides: [i64; 3],
    value_border: bool,
    reference_dim: Option<i32>,
    operation: Operation,
    value_dtype: Dtype,
    coord_dtype: Option<Dtype>,
    weight_dtype: Option<Dtype>,
    output_dtype: Option<Dtype>,
    grad_value_dtype: Option<Dtype>,
    reference_dtype: Option<Dtype>,
    math_mode: MathMode,
    determinism: Determinism,
    point_locality: PointLocality,
    sampling_mode: SamplingMode,
}

/// Setters that store what they are given: documentation, name, field and type of each.
macro_rules! setters {
    ($($(#[$documentation:meta])* $setter:ident => $field:ident: $type:ty;)*) => {
        $(
            $(#[$documentation])*
            pub fn $setter(mut self, $field: $type) -> Self {
                self.$field = $field.into();
                self
            }
        )*
    };
}

impl Problem {
    /// Levels as (H, W) in pixels, and the type of value.
    pub fn new(level_hw: &[[i32; 2]], value_dtype: Dtype) -> Self {
        Problem {
            level_hw: level_hw.to_vec(),
            point_counts: None,
            query_hw: Vec::new(),
            level_start: None,
            token_count: 0,
            batch: 1,
            query_count: 0,
            head_count: 0,
            head_dim: 0,
            point_count: 0,
            value_strides: [0; 3],
            coord_strides: [0; 3],
            weight_strides: [0; 3],
            output_strides: [0; 3],
            grad_coord_strides: [0; 3],
            grad_weight_strides: [0; 3],
            value_border: false,
            reference_dim: None,
            operation: Operation::default(),
            value_dtype,
            coord_dtype: None,
            weight_dtype: None,
            output_dtype: None,
            grad_value_dtype: None,
            reference_dtype: None,
            math_mode: MathMode::default(),
            determinism: Determinism::default(),
            point_locality: PointLocality::default(),
            sampling_mode: SamplingMode::default(),
        }
    }

    setters! {
        /// B.
        batch => batch: i64;
        /// Q.
        queries => query_count: i64;
        /// S; else the tokens end where the last level does.
        token_count => token_count: i64;
        /// The inputs are reference points of `reference_dim` numbers (2 or 4), offsets and logits.
        fused => reference_dim: i32;
        /// Elements between neighbours along \[B\]\[S\]\[M\] of value.
        value_strides => value_strides: [i64; 3];
        /// Elements between neighbours along \[B\]\[Q\]\[M\] of coord and offset.
        coord_strides => coord_strides: [i64; 3];
        /// Elements between neighbours along \[B\]\[Q\]\[M\] of weight and logit.
        weight_strides => weight_strides: [i64; 3];
        /// Elements between neighbours along \[B\]\[Q\]\[M\] of output and its gradient.
        output_strides => output_strides: [i64; 3];
        /// Elements between neighbours along \[B\]\[Q\]\[M\] of the gradient of coord or offset.
        grad_coord_strides => grad_coord_strides: [i64; 3];
        /// Elements between neighbours along \[B\]\[Q\]\[M\] of the gradient of weight or logit.
        grad_weight_strides => grad_weight_strides: [i64; 3];
        /// Type of coord, offset and their gradients.
        coord_dtype => coord_dtype: Dtype;
        /// Type of weight, logit and their gradients.
        weight_dtype => weight_dtype: Dtype;
        /// Type of output and its gradient.
        output_dtype => output_dtype: Dtype;
        /// Type of the gradient of value.
        grad_value_dtype => grad_value_dtype: Dtype;
        /// Type of reference and its gradient; that of coord where it is not set.
        reference_dtype => reference_dtype: Dtype;
        math_mode => math_mode: MathMode;
        determinism => determinism: Determinism;
        /// Where the points land; a hint for the choice of the kernel.
        point_locality => point_locality: PointLocality;
        /// Four pixels a point, or the one that holds it.
        sampling_mode => sampling_mode: SamplingMode;
    }

    /// The grids whose pixels the queries are; a hint of locality that never changes a result.
    pub fn query_grids(mut self, query_hw: &[[i32; 2]]) -> Self {
        self.query_hw = query_hw.to_vec();
        self
    }
    /// The token at which each level starts, in any order, with gaps or not; else one level follows another.
    pub fn level_start(mut self, level_start: &[i64]) -> Self {
        self.level_start = Some(level_start.to_vec());
        self
    }
    /// M heads of D channels.
    pub fn heads(mut self, head_count: i64, head_dim: i64) -> Self {
        (self.head_count, self.head_dim) = (head_count, head_dim);
        self
    }
    /// P points on every level.
    pub fn points(mut self, point_count: i32) -> Self {
        (self.point_count, self.point_counts) = (point_count, None);
        self
    }
    /// The points of each level.
    pub fn points_by_level(mut self, point_counts: &[i32]) -> Self {
        self.point_counts = Some(point_counts.to_vec());
        self
    }
    /// Gradients instead of the output.
    pub fn backward(mut self) -> Self {
        self.operation = Operation::Backward;
        self
    }
    /// Every level is stored with a border of one zero pixel.
    pub fn bordered(mut self) -> Self {
        self.value_border = true;
        self
    }

    /// Calls `use_it` with the C struct, which points into `self`.
    pub(crate) fn with_c<T>(
        &self,
        use_it: impl FnOnce(&sys::msda_problem) -> Result<T>,
    ) -> Result<T> {
        let lengths = [
            ("points_by_level", self.point_counts.as_ref().map(Vec::len)),
            ("level_start", self.level_start.as_ref().map(Vec::len)),
        ];
        let levels = self.level_hw.len();
        for (name, count) in lengths.into_iter().filter_map(|(name, count)| Some((name, count?))) {
            if count != levels {
                return Err(Error::invalid(format!(
                    "{name} has {count} entries: must have {levels}, one for each level"
                )));
            }
        }
        let length = |count: usize, name: &str| {
            i32::try_from(count)
                .map_err(|_| Error::invalid(format!("{name} has {count} entries: too many")))
        };
        let pairs = |array: &[[i32; 2]]| {
            if array.is_empty() {
                std::ptr::null()
            } else {
                array.as_ptr().cast()
            }
        };
        let dtype = |dtype: Option<Dtype>| dtype.map_or(sys::MSDA_DTYPE_NONE as i32, |d| d as i32);
        let fused = self.reference_dim.is_some();
        let mode = if fused { sys::MSDA_INPUT_FUSED } else { sys::MSDA_INPUT_SAMPLED };
        use_it(&sys::msda_problem {
            struct_size: std::mem::size_of::<sys::msda_problem>(),
            level_hw: pairs(&self.level_hw),
            point_counts: self.point_counts.as_ref().map_or(std::ptr::null(), |p| p.as_ptr()),
            query_hw: pairs(&self.query_hw),
            batch: self.batch,
            query_count: self.query_count,
            head_count: self.head_count,
            head_dim: self.head_dim,
            value_strides: self.value_strides,
            coord_strides: self.coord_strides,
            weight_strides: self.weight_strides,
            output_strides: self.output_strides,
            level_count: length(self.level_hw.len(), "level_hw")?,
            point_count: self.point_count,
            value_border: self.value_border.into(),
            reference_dim: self.reference_dim.unwrap_or(0),
            operation: self.operation as i32,
            input_mode: mode as i32,
            value_dtype: self.value_dtype as i32,
            coord_dtype: dtype(self.coord_dtype),
            weight_dtype: dtype(self.weight_dtype),
            output_dtype: dtype(self.output_dtype),
            grad_value_dtype: dtype(self.grad_value_dtype),
            math_mode: self.math_mode as i32,
            determinism: self.determinism as i32,
            query_grid_count: length(self.query_hw.len(), "query_grids")?,
            point_locality: self.point_locality as i32,
            flags: 0,
            level_start: self.level_start.as_ref().map_or(std::ptr::null(), |s| s.as_ptr()),
            token_count: self.token_count,
            grad_coord_strides: self.grad_coord_strides,
            grad_weight_strides: self.grad_weight_strides,
            sampling_mode: self.sampling_mode as i32,
            reference_dtype: dtype(self.reference_dtype),
        })
    }

    /// S of a problem that the library has accepted.
    fn token_total(&self) -> i128 {
        if self.token_count != 0 {
            return self.token_count.into();
        }
        let border = if self.value_border { 2 } else { 0 };
        let tokens = (self.level_hw.iter())
            .map(|[h, w]| (i128::from(*h) + border) * (i128::from(*w) + border));
        match &self.level_start {
            None => tokens.sum(),
            Some(starts) => tokens
                .zip(starts)
                .map(|(count, &start)| count + i128::from(start))
                .max()
                .unwrap_or(0),
        }
    }

    /// The tensors of a problem that the library has accepted.
    pub(crate) fn shapes(&self) -> Shapes {
        let points = match &self.point_counts {
            Some(counts) => counts.iter().map(|&count| i128::from(count)).sum::<i128>(),
            None => i128::from(self.point_count) * self.level_hw.len() as i128,
        };
        let tokens = self.token_total();
        let size = |axis| match axis {
            'B' => self.batch.into(),
            'S' => tokens,
            'M' => self.head_count.into(),
            'D' => self.head_dim.into(),
            'Q' => self.query_count.into(),
            'L' => self.level_hw.len() as i128,
            'K' => points,
            'R' => self.reference_dim.unwrap_or(0).into(),
            _ => 2,
        };
        Shapes {
            backward: self.operation == Operation::Backward,
            fused: self.reference_dim.is_some(),
            value_dtype: self.value_dtype,
            all: TENSORS.map(|row| {
                let dims: Vec<i128> = row.axes.chars().map(size).collect();
                Shape::new(
                    &row,
                    &dims,
                    row.strides.map_or([0; 3], |field| self.strides(field)),
                    row.dtype.map_or(Dtype::F32, |field| self.dtype(field)),
                )
            }),
        }
    }

    /// A field of `msda_problem` with the type of tensors, or what the library takes where it is not set.
    fn dtype(&self, field: &str) -> Dtype {
        let points = self.value_dtype.default_of_points();
        let results = self.value_dtype.default_of_results();
        match field {
            "value_dtype" => self.value_dtype,
            "coord_dtype" => self.coord_dtype.unwrap_or(points),
            "weight_dtype" => self.weight_dtype.unwrap_or(points),
            "output_dtype" => self.output_dtype.unwrap_or(results),
            "grad_value_dtype" => self.grad_value_dtype.unwrap_or(results),
            "reference_dtype" => self.reference_dtype.or(self.coord_dtype).unwrap_or(points),
            _ => unreachable!("no type {field}"),
        }
    }

    /// A field of `msda_problem` with the strides of tensors.
    fn strides(&self, field: &str) -> [i64; 3] {
        match field {
            "value_strides" => self.value_strides,
            "coord_strides" => self.coord_strides,
            "weight_strides" => self.weight_strides,
            "output_strides" => self.output_strides,
            "grad_coord_strides" => self.grad_coord_strides,
            "grad_weight_strides" => self.grad_weight_strides,
            _ => unreachable!("no strides {field}"),
        }
    }
}

/// What a slice must be: so many elements (or at least, when there are strides) of this type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub name: &'static str,
    /// The field of `msda_problem` with its strides, if it may have some.
    field: Option<&'static str>,
    dims: Dims,
    strides: Dims,
    pub len: u128,
    pub strided: bool,
    pub dtype: Dtype,
}

impl Shape {
    /// Strides are those of the first three dimensions; the others are packed.
    fn new(row: &Row, dims: &[i128], strides: [i64; 3], dtype: Dtype) -> Self {
        let strided = strides != [0; 3];
        let mut all = packed_strides(dims);
        if strided {
            all.iter_mut().zip(strides).for_each(|(to, stride)| *to = stride.into());
        }
        let last = dims.iter().zip(&all).map(|(n, stride)| (n - 1) * stride).sum::<i128>();
        Shape {
            name: row.name,
            field: row.strides,
            dims: Dims::new(dims.iter().copied()),
            strides: Dims::new(all.into_iter()),
            len: if dims.contains(&0) { 0 } else { (last + 1).unsigned_abs() },
            strided,
            dtype,
        }
    }

    pub fn dims(&self) -> &[i128] {
        self.dims.as_slice()
    }

    /// Elements from one index of each dimension to the next.
    pub fn strides(&self) -> &[i128] {
        self.strides.as_slice()
    }

    /// How to tell the problem of an array with these strides; nothing where it cannot be told.
    pub fn hint(&self, strides: &[i128]) -> String {
        match self.field {
            Some(field)
                if strides[3..] == self.strides()[3..] && strides.iter().all(|&n| n >= 0) =>
            {
                format!("; Problem::{field}({:?}) takes it as it is", &strides[..3])
            }
            _ => String::new(),
        }
    }
}

/// The strides of dimensions that lie side by side, the last one innermost.
pub(crate) fn packed_strides(dims: &[i128]) -> Vec<i128> {
    (1..=dims.len()).map(|next| dims[next..].iter().product()).collect()
}

/// Numbers of the dimensions of a tensor, of which the library has five at most; of others, the first six.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dims {
    numbers: [i128; 6],
    rank: usize,
}

impl Dims {
    pub fn new(all: impl Iterator<Item = i128>) -> Self {
        let mut dims = Dims { numbers: [0; 6], rank: 0 };
        for (number, dim) in dims.numbers.iter_mut().zip(all) {
            *number = dim;
            dims.rank += 1;
        }
        dims
    }

    pub fn as_slice(&self) -> &[i128] {
        &self.numbers[..self.rank]
    }
}

/// The shapes of a plan's tensors.
#[derive(Clone, Debug)]
pub(crate) struct Shapes {
    pub backward: bool,
    pub fused: bool,
    pub value_dtype: Dtype,
    all: [Shape; TENSORS.len()],
}

impl Shapes {
    pub fn of(&self, tensor: Tensor) -> Shape {
        self.all[tensor as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_may_start_anywhere() {
        let problem = Problem::new(&[[2, 3], [1, 2]], Dtype::F32).heads(1, 1);
        let tokens = |problem: &Problem| problem.shapes().of(Tensor::Value).len;
        assert_eq!(tokens(&problem), 8);
        let moved = problem.clone().level_start(&[4, 1]);
        assert_eq!(tokens(&moved), 10);
        assert_eq!(tokens(&moved.clone().token_count(13)), 13);
        let told = |c: &sys::msda_problem| Ok((unsafe { *c.level_start }, c.token_count));
        assert_eq!(moved.token_count(13).with_c(told).unwrap(), (4, 13));
        assert!(problem.with_c(|c| Ok(c.level_start.is_null())).unwrap());
        let error = problem.level_start(&[0]).with_c(|_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("level_start has 1 entries: must have 2"), "{error}");
    }

    #[test]
    fn the_library_is_told_where_points_land() {
        let told = |problem: &Problem| problem.with_c(|c| Ok(c.point_locality)).unwrap();
        let problem = Problem::new(&[[2, 2]], Dtype::F32);
        assert_eq!(told(&problem), 0);
        assert_eq!(told(&problem.clone().point_locality(PointLocality::Local)), 1);
        assert_eq!(told(&problem.point_locality(PointLocality::Scattered)), 2);
    }
}
