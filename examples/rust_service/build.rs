//! The service finds the library that msda was linked with, wherever MSDA_DIR says it is.

fn main() {
    println!("cargo:rerun-if-env-changed=MSDA_DIR");
    if let Ok(folder) = std::env::var("MSDA_DIR") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}/lib");
    }
}
