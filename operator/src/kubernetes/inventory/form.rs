//! The forms in which the cache keeps the objects of a kind.

use k8s_openapi::api::core::v1::Pod;
use kube::core::PartialObjectMeta;
use shortener_operator_core::model::metadata::managed_by_selector;

/// A form in which the cache keeps the objects of kind `K`.
pub trait Form<K> {
    /// The cached object.
    type Kept;

    /// Returns the label selector of the watch; `None` for every object of the kind.
    fn selector() -> Option<String> {
        Some(managed_by_selector())
    }

    /// Removes the parts that nothing reads.
    fn trim(_: &mut Self::Kept) {}
}

/// The whole object, for kinds whose status or content is needed.
pub struct Whole;

/// Only the metadata.
pub struct Metadata;

/// Only the metadata, but of every object: a change of a user's Secret restarts the pods that use it.
pub struct MetadataOfAll;

/// The whole object, and every one of the kind: the operator reads objects of others.
pub struct WholeOfAll;

/// A pod without its spec, because only its metadata, conditions and container states are read.
pub struct WithoutSpec;

impl<K> Form<K> for Whole {
    type Kept = K;
}

impl<K> Form<K> for Metadata {
    type Kept = PartialObjectMeta<K>;
}

impl<K> Form<K> for MetadataOfAll {
    type Kept = PartialObjectMeta<K>;

    fn selector() -> Option<String> {
        None
    }
}

impl<K> Form<K> for WholeOfAll {
    type Kept = K;

    fn selector() -> Option<String> {
        None
    }
}

impl Form<Pod> for WithoutSpec {
    type Kept = Pod;

    fn trim(pod: &mut Pod) {
        pod.spec = None;
    }
}
