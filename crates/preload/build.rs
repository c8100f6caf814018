//! Links what C libraries before 2.34 keep outside libc.so.6, so that one build loads on all of them.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Newer C libraries ship empty files of these names.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--push-state,--no-as-needed,-l:libdl.so.2,-l:libpthread.so.0,--pop-state");
}
