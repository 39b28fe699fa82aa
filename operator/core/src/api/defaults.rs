//! Defaults of fields.
//!
//! `KubeSchema` derives the schema of a struct from a copy that has no `Default`. So `#[serde(default)]` on such a struct
//! names the function, as in `default = "CacheSpec::default"`.

/// Returns a number. `#[serde(default = "number::<14>")]` makes 14 the default of a field.
pub(super) fn number<const N: i32>() -> i32 {
    N
}
