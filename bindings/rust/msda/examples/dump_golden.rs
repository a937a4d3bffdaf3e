//! Runs an .npz of tests/golden through the crate, forward and backward in float32, and writes every result as
//! raw little-endian numbers, one file an array:
//!
//!     cargo run --example dump_golden -- tests/golden/edges.npz OUT_DIR [KERNEL_ID]

#[allow(dead_code)] // the tests use more of these two files
#[path = "../tests/common/golden.rs"]
mod golden;
#[allow(dead_code)]
#[path = "../tests/common/run_golden.rs"]
mod run_golden;

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (input, folder, kernel_id) = match &arguments[..] {
        [input, folder] => (input, folder, "ref.cpu@1"),
        [input, folder, kernel_id] => (input, folder, kernel_id.as_str()),
        _ => return Err("usage: dump_golden IN.npz OUT_DIR [KERNEL_ID]".into()),
    };
    let handle = msda::Handle::cpu(0)?;
    let case = golden::Golden::read(Path::new(input));
    std::fs::create_dir_all(folder)?;
    for (name, array) in run_golden::run_all::<f32>(&handle, &case, Some(kernel_id))? {
        let bytes: Vec<u8> = array.iter().flat_map(|x| x.to_le_bytes()).collect();
        let path = Path::new(folder).join(format!("{name}.bin"));
        std::fs::write(&path, bytes)?;
        println!("{}: {} numbers", path.display(), array.len());
    }
    Ok(())
}
