//! Rebuilds the binary after a new migration, even if no source file changed.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
