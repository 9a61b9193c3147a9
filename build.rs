//! What the shared library needs from the linker. Rust itself exports only `weft_*` from it.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    let major = env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo sets it");
    let mut options = vec![
        format!("-Wl,-soname,libweft.so.{major}"),
        // Threads of weft's and destructors of thread-local values may run after a dlclose.
        "-Wl,-z,nodelete".into(),
        "-Wl,-z,relro,-z,now".into(),
    ];
    // A sanitizer's symbols are defined by the program, so its build has undefined ones.
    if env::var_os("CARGO_CFG_SANITIZE").is_none() {
        options.push("-Wl,-z,defs".into());
    }
    for option in options {
        println!("cargo::rustc-cdylib-link-arg={option}");
    }
}
