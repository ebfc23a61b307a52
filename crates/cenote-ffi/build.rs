//! The shared library is not unloaded by `dlclose`: it runs code when threads end and when processes fork, and pools
//! have threads of their own.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
