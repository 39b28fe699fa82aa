//! Parameters of the operator's writes.

use kube::api::PatchParams;
use shortener_operator_core::model::metadata::FIELD_MANAGER;

/// Returns the parameters of a server-side apply, which takes the fields that others own.
pub fn applying() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}

/// Returns the parameters of a merge of a few fields.
pub fn merging() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
