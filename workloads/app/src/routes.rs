//! The handlers, one file per resource. Paths are listed in [`crate::router`] only.

pub mod admin;
pub mod console;
pub mod docs;
pub mod health;
pub mod jobs;
pub mod labels;
pub mod metrics;
pub mod openapi;
pub mod preview;
pub mod qr;
pub mod redirect;
pub mod short_links;
pub mod shorten;
