// Generated from src/core/tensors.inc by tools/generate; do not edit.

/// The tensors of a problem, in the order of `msda_tensors`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tensor {
    Value,
    Coord,
    Weight,
    Reference,
    Offset,
    Logit,
    ValueScale,
    Output,
    GradOutput,
    GradValue,
    GradCoord,
    GradWeight,
    GradReference,
    GradOffset,
    GradLogit,
    Attention,
}

/// Axes in letters of msda.h (R is reference_dim), and the fields of `msda_problem` with the type (none:
/// float) and the strides (none: packed).
pub(crate) struct Row {
    pub name: &'static str,
    pub axes: &'static str,
    pub dtype: Option<&'static str>,
    pub strides: Option<&'static str>,
}

#[rustfmt::skip]
pub(crate) const TENSORS: [Row; 16] = [
    Row { name: "value", axes: "BSMD", dtype: Some("value_dtype"), strides: Some("value_strides") },
    Row { name: "coord", axes: "BQMK2", dtype: Some("coord_dtype"), strides: Some("coord_strides") },
    Row { name: "weight", axes: "BQMK", dtype: Some("weight_dtype"), strides: Some("weight_strides") },
    Row { name: "reference", axes: "BQLR", dtype: Some("reference_dtype"), strides: None },
    Row { name: "offset", axes: "BQMK2", dtype: Some("coord_dtype"), strides: Some("coord_strides") },
    Row { name: "logit", axes: "BQMK", dtype: Some("weight_dtype"), strides: Some("weight_strides") },
    Row { name: "value_scale", axes: "M", dtype: None, strides: None },
    Row { name: "output", axes: "BQMD", dtype: Some("output_dtype"), strides: Some("output_strides") },
    Row { name: "grad_output", axes: "BQMD", dtype: Some("output_dtype"), strides: Some("output_strides") },
    Row { name: "grad_value", axes: "BSMD", dtype: Some("grad_value_dtype"), strides: None },
    Row { name: "grad_coord", axes: "BQMK2", dtype: Some("coord_dtype"), strides: Some("grad_coord_strides") },
    Row { name: "grad_weight", axes: "BQMK", dtype: Some("weight_dtype"), strides: Some("grad_weight_strides") },
    Row { name: "grad_reference", axes: "BQLR", dtype: Some("reference_dtype"), strides: None },
    Row { name: "grad_offset", axes: "BQMK2", dtype: Some("coord_dtype"), strides: Some("grad_coord_strides") },
    Row { name: "grad_logit", axes: "BQMK", dtype: Some("weight_dtype"), strides: Some("grad_weight_strides") },
    Row { name: "attention", axes: "BQMK", dtype: Some("weight_dtype"), strides: None },
];
