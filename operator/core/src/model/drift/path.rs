//! Paths of fields, which cost nothing until a difference is found.

use std::fmt::{Display, Formatter, Result};

use serde_json::Value;

use super::FieldChange;

/// Maps whose values are quantities.
const QUANTITIES: [&str; 3] = ["requests", "limits", "capacity"];

/// Maps that have one owner each for all of their keys.
const SELECTORS: [&str; 6] = [
    "labelSelector",
    "matchLabels",
    "namespaceSelector",
    "nodeSelector",
    "podSelector",
    "selector",
];

/// Lists of named items to which others may add items of their own.
const SHARED: [&str; 10] = [
    "containers",
    "env",
    "groups",
    "imagePullSecrets",
    "initContainers",
    "ownerReferences",
    "ports",
    "volumeDevices",
    "volumeMounts",
    "volumes",
];

/// The path of a field within an object.
#[derive(Clone, Copy)]
pub(super) enum FieldPath<'a> {
    /// The object itself.
    Root,
    /// A field of an object.
    Field(&'a FieldPath<'a>, &'a str),
    /// An item of a list, by its name.
    Item(&'a FieldPath<'a>, &'a str),
    /// An item of a list, by its place.
    Place(&'a FieldPath<'a>, usize),
}

impl FieldPath<'_> {
    /// Returns the change of this field.
    pub(super) fn change(&self, before: Option<&Value>, after: Option<&Value>) -> FieldChange {
        FieldChange {
            path: self.to_string(),
            before: before.cloned(),
            after: after.cloned(),
        }
    }

    /// Returns true when the field is a quantity.
    pub(super) fn is_quantity(&self) -> bool {
        match self {
            Self::Field(_, "sizeLimit") => true,
            Self::Field(Self::Field(_, map), _) => QUANTITIES.contains(map),
            _ => false,
        }
    }

    /// Returns true for a list to which others may add items.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Field(_, key) if SHARED.contains(key))
    }

    /// Returns true when nobody else may add a field with this value to this one.
    pub(super) fn forbids(&self, added: &Value) -> bool {
        matches!(self, Self::Field(_, key) if SELECTORS.contains(key))
            || (added.is_array() && self.is_in_item())
    }

    fn is_in_item(&self) -> bool {
        match self {
            Self::Root => false,
            Self::Place(..) => true,
            Self::Field(parent, _) | Self::Item(parent, _) => parent.is_in_item(),
        }
    }
}

impl Display for FieldPath<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, key) => formatter.write_str(key),
            // Keys of labels and annotations contain dots.
            Self::Field(parent, key) if key.contains(['.', '/']) => {
                write!(formatter, "{parent}[{key}]")
            }
            Self::Field(parent, key) => write!(formatter, "{parent}.{key}"),
            Self::Item(parent, name) => write!(formatter, "{parent}[{name}]"),
            Self::Place(parent, place) => write!(formatter, "{parent}[{place}]"),
        }
    }
}
