//! Tests and examples find the library that msda-sys was linked with.

fn main() {
    if let Ok(folder) = std::env::var("DEP_MSDA_LIB") {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
