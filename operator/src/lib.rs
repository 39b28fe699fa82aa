//! The ShortenerStack operator: it runs a link-shortening service from one custom resource.
//!
//! Reading order: [`api`], `reconcile`, `reconcile::validate`, `reconcile::build`, `reconcile::apply`, `reconcile::status`.

pub mod api;
pub mod metadata;
pub mod reconcile;
