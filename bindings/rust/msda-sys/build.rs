//! Finds libmsda: the folder that MSDA_DIR names (it has lib/), then pkg-config, then, with the feature
//! `vendored`, a build by CMake. On docs.rs nothing is linked.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    for variable in ["MSDA_DIR", "DOCS_RS"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("native/include");
    let include = if env::var_os("DOCS_RS").is_some() { None } else { find() };
    #[cfg(feature = "bindgen")]
    generate(&include.unwrap_or(own));
    #[cfg(not(feature = "bindgen"))]
    let _ = (include, own);
}

/// Has the library linked; its folder of headers, where it has one.
fn find() -> Option<PathBuf> {
    if let Some(folder) = env::var_os("MSDA_DIR").map(PathBuf::from) {
        let Some(lib) = ["lib", "lib64"]
            .map(|name| folder.join(name))
            .into_iter()
            .find(|lib| lib.join("libmsda.so").exists())
        else {
            fail(&format!("MSDA_DIR is {}: it must have lib/libmsda.so", folder.display()));
        };
        println!("cargo:rustc-link-search=native={}", lib.display());
        println!("cargo:rustc-link-lib=dylib=msda");
        run_from(&lib);
        return Some(folder.join("include")).filter(|include| include.join("msda.h").exists());
    }
    if let Ok(library) = pkg_config::Config::new().atleast_version("0.1").probe("msda") {
        if let Some(lib) = library.link_paths.first() {
            run_from(lib);
        }
        return library.include_paths.into_iter().find(|include| include.join("msda.h").exists());
    }
    #[cfg(feature = "vendored")]
    return Some(build_from_source().join("include"));
    #[cfg(not(feature = "vendored"))]
    fail(
        "libmsda was not found: set MSDA_DIR to a folder that has lib/libmsda.so, or install it so that \
         pkg-config finds msda, or use the feature `vendored`",
    );
}

/// The tests of this crate find the library there; other crates learn of it by DEP_MSDA_LIB in their build
/// scripts.
fn run_from(folder: &Path) {
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
    println!("cargo:lib={}", folder.display());
}

/// The kernels for the CPU, in a static library, so that a program that is copied elsewhere still runs. What it
/// needs besides is written in its msda.pc.
#[cfg(feature = "vendored")]
fn build_from_source() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("native");
    for name in ["CMakeLists.txt", "cmake", "include", "kernels", "src"] {
        println!("cargo:rerun-if-changed={}", source.join(name).display());
    }
    let prefix = cmake::Config::new(source)
        .profile("Release")
        .no_default_flags(true)
        .define("MSDA_CUDA", "OFF")
        .define("MSDA_BUILD_CLI", "OFF")
        .define("MSDA_BUILD_JAX", "OFF")
        .define("MSDA_BUILD_TESTS", "OFF")
        .define("MSDA_BUILD_EXAMPLES", "OFF")
        .define("CMAKE_INSTALL_LIBDIR", "lib")
        .build();
    env::set_var("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    if let Err(error) = pkg_config::Config::new().statik(true).probe("msda") {
        fail(&format!("pkg-config does not find the msda that was built: {error}"));
    }
    prefix
}

#[cfg(feature = "bindgen")]
fn generate(include: &Path) {
    let bindings = Path::new(&env::var_os("OUT_DIR").expect("set by Cargo")).join("bindings.rs");
    let status = std::process::Command::new("bindgen")
        .arg(include.join("msda.h"))
        .args(include_str!("bindgen.flags").lines())
        .arg("--output")
        .arg(&bindings)
        .status();
    match status {
        Ok(status) if status.success() => (),
        Ok(status) => fail(&format!("the command bindgen failed: {status}")),
        Err(error) => {
            fail(&format!("the feature `bindgen` needs the command of that name (cargo install bindgen-cli): {error}"))
        }
    }
}

/// One line, without a panic's backtrace.
fn fail(message: &str) -> ! {
    eprintln!("msda-sys: {message}");
    std::process::exit(1)
}
