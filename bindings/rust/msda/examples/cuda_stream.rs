//! A forward call on a CUDA device's memory, enqueued on a stream of the crate cudarc.
//!
//!     cargo run --example cuda_stream --features cudarc

use std::error::Error;

use msda::cudarc::driver::CudaContext;
use msda::{Dtype, Handle, Inputs, Problem};

fn main() -> Result<(), Box<dyn Error>> {
    let handle = Handle::cuda(0)?; // before cudarc looks for the driver: without a GPU it says so
    let stream = CudaContext::new(0)?.new_stream()?;

    // One map of 2 x 2 pixels, whose numbers are 1 to 4, and two queries: one between all pixels, one on the last.
    let problem = Problem::new(&[[2, 2]], Dtype::F32).points(1).queries(2).heads(1, 1);
    let plan = handle.plan(&problem)?;
    println!("{plan:?}");

    let value = stream.clone_htod(&[1.0f32, 2.0, 3.0, 4.0])?; // [B][S][M][D]
    let coord = stream.clone_htod(&[0.5f32, 0.5, 0.75, 0.75])?; // [B][Q][M][K][2]
    let weight = stream.clone_htod(&[1.0f32, 1.0])?; // [B][Q][M][K]
    let mut output = stream.alloc_zeros::<f32>(2)?; // [B][Q][M][D]
    let mut workspace = plan.workspace_on(&stream)?; // once, for all calls of the plan
    let inputs = Inputs::sampled(&value, &coord, &weight);
    for _ in 0..2 {
        plan.forward_on_in(&stream, &mut workspace, &inputs, &mut output)?;
    }

    let output = stream.clone_dtoh(&output)?; // waits for the stream
    println!("output {output:?}");
    assert_eq!(output, [2.5, 4.0]);
    Ok(())
}
