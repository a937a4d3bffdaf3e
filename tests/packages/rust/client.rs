//! Makes a handle of the device that is its argument, cpu or cuda, and says how that failed.

fn main() {
    let handle = match std::env::args().nth(1).as_deref() {
        Some("cuda") => msda::Handle::cuda(0),
        _ => msda::Handle::cpu(0),
    };
    match handle.and_then(|handle| handle.kernels()) {
        Ok(kernels) => println!("client: libmsda {} with {} kernels", msda::version(), kernels.len()),
        Err(error) => {
            eprintln!("client: {error}");
            std::process::exit(1);
        }
    }
}
