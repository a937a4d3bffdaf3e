//! Finds libmsda: the folder that MSDA_DIR names (it has lib/), then pkg-config, then, with the feature
//! `vendored`, a build by CMake. On docs.rs nothing is linked.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    for variable in ["MSDA_DIR", "DOCS_RS"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    #[cfg(feature = "bindgen")]
    regenerate();
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    if let Some(folder) = env::var_os("MSDA_DIR").map(PathBuf::from) {
        let lib = folder.join("lib");
        if !lib.join("libmsda.so").exists() {
            panic!("MSDA_DIR is {}: it must have lib/libmsda.so", folder.display());
        }
        return link(&lib);
    }
    if pkg_config::Config::new().atleast_version("0.1").probe("msda").is_ok() {
        return;
    }
    #[cfg(feature = "vendored")]
    return link(&build_from_source().join("lib"));
    #[cfg(not(feature = "vendored"))]
    panic!(
        "libmsda was not found: set MSDA_DIR to a folder that has lib/libmsda.so, or install it so that \
         pkg-config finds msda, or use the feature `vendored`"
    );
}

fn link(folder: &Path) {
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=dylib=msda");
    // For crates that want to run without an installed library: DEP_MSDA_LIB in their build scripts.
    println!("cargo:lib={}", folder.display());
}

#[cfg(feature = "vendored")]
fn build_from_source() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    if !source.join("include/msda.h").exists() {
        panic!("the feature `vendored` needs the source of libmsda at {}", source.display());
    }
    cmake::Config::new(source)
        .define("MSDA_BUILD_CLI", "OFF")
        .define("MSDA_BUILD_TESTS", "OFF")
        .define("MSDA_BUILD_EXAMPLES", "OFF")
        .define("CMAKE_INSTALL_LIBDIR", "lib")
        .build()
}

#[cfg(feature = "bindgen")]
fn regenerate() {
    let generator = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tools/gen_bindings");
    let status = std::process::Command::new(&generator).status();
    if !status.map(|s| s.success()).unwrap_or(false) {
        panic!("{} failed: it needs Python with libclang, and bindgen", generator.display());
    }
}
