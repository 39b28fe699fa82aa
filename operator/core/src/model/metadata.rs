//! Names, labels, owner references and annotations of child objects, defined in this one place.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube_core::{Resource, ResourceExt};

use crate::api::ShortenerStack;

/// Field manager of every server-side apply.
pub const FIELD_MANAGER: &str = "shortener-operator";
/// Value of the label `app.kubernetes.io/name` on every child.
pub const APP_NAME: &str = "shortener";
/// Label key for the name of the application.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";
/// Label key for the name of the stack.
pub const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
/// Label key for the name of the component.
pub const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
/// Label key for the tool that manages the object.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Annotation with the hash of the object as it was last applied.
pub const APPLIED_HASH: &str = "shortener.dev/applied-hash";
/// Pod annotation with the keyed hash of the configuration and the Secrets that the pod uses.
pub const CONFIG_CHECKSUM: &str = "shortener.dev/config-checksum";
/// Annotation on a store's volume claim with the version of the server that wrote its data.
pub const DATA_VERSION: &str = "shortener.dev/data-version";

/// Annotation of a pod with its place in the order in which a ReplicaSet deletes pods that are too many: those with the
/// lowest number come first, and a pod without it has 0.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Maximum length of the name of an object.
const LONGEST_NAME: usize = 253;

/// Annotations that keep Argo CD from deleting retained objects, which hold data. These objects have no owner. If
/// Argo CD tracks by the label `app.kubernetes.io/instance`, an Application with the name of the stack takes them for
/// leftovers of its own. Without the annotations it would prune them, delete them with the Application, and report
/// the Application as out of sync. Flux removes only what it has applied itself.
const KEPT_BY_ARGO_CD: [(&str, &str); 2] = [
    ("argocd.argoproj.io/compare-options", "IgnoreExtraneous"),
    (
        "argocd.argoproj.io/sync-options",
        "Prune=false,Delete=false",
    ),
];

/// Annotation with which the user switches the named profiles off at once, without draining them.
pub const FORCE_DISABLE: &str = "shortener.dev/force-disable";

/// Annotation with which the user lets the operator only plan: with the value `true`, it writes what it would do to the
/// status and changes nothing.
pub const PLAN_ONLY: &str = "shortener.dev/plan-only";

/// Annotation with which the user lets the pods of a stack with `upgradePolicy: OnSpecChange` restart: another value
/// than before counts as an edit of the spec.
pub const RELEASE: &str = "shortener.dev/release";
/// Annotation with which the user confirms the deletion of a stack with its data. The operator does not read it: a policy
/// of the chart does.
pub const CONFIRM_DELETE: &str = "shortener.dev/confirm-delete";
/// Annotation with the host of the console, on its Ingress or HTTPRoute and on those of the links.
pub const CONSOLE_HOST: &str = "shortener.dev/console-host";
/// Annotation on a workload with the record of its pods (see [`crate::model::record`]).
pub const RECORD: &str = "shortener.dev/record";

/// Label of a Secret or a volume claim that users who edit stacks may use, with the value `true`.
pub const USABLE_BY_STACKS: &str = "shortener.dev/usable-by-stacks";

/// Returns true when a Secret or a volume claim has the label that admits it.
pub fn is_usable_by_stacks(object: &ObjectMeta) -> bool {
    has_label(object, USABLE_BY_STACKS, "true")
}

/// Returns true when the operator made a volume claim for backups.
pub fn is_for_backups(claim: &ObjectMeta) -> bool {
    has_label(claim, MANAGED_BY_LABEL, FIELD_MANAGER)
        && has_label(claim, COMPONENT_LABEL, Component::Backup.as_str())
}

fn has_label(object: &ObjectMeta, key: &str, value: &str) -> bool {
    let labels = object.labels.as_ref();
    let found = labels.and_then(|labels| labels.get(key));
    found.is_some_and(|found| found == value)
}

/// Returns true when the user lets the operator only plan the stack.
pub fn is_plan_only(stack: &ShortenerStack) -> bool {
    let value = stack.annotations().get(PLAN_ONLY);
    value.is_some_and(|value| value == "true")
}

/// Makes the components from a list of those that run pods, each with the value of its label.
macro_rules! components {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// A component of a stack, as in the label `app.kubernetes.io/component`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Component {
            $($(#[$doc])* $name,)*
            /// The stack as a whole.
            Stack,
        }

        impl Component {
            /// Every component that runs pods.
            pub const WITH_PODS: [Self; [$($label),*].len()] = [$(Self::$name),*];

            /// Returns the value of the label.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)*
                    Self::Stack => "stack",
                }
            }
        }
    };
}

components! {
    /// The app, which shortens links and redirects.
    App = "app",
    /// The public entry.
    Gateway = "gateway",
    /// The managed database.
    Postgres = "postgres",
    /// The managed cache.
    Cache = "cache",
    /// The managed broker.
    Rabbitmq = "rabbitmq",
    /// The workers, which take jobs from the queue.
    Worker = "worker",
    /// The removal of expired data, which the app's image does at times.
    Purge = "purge",
    /// The delivery of webhooks, which the app's image does.
    Webhooks = "webhooks",
    /// The backups of the database.
    Backup = "backup",
    /// The verification of these backups.
    Verify = "verify",
    /// The comparison while links move from one database to another.
    Move = "move",
    /// The managed collector of traces and logs.
    Otel = "otel",
    /// The managed backend of traces, logs and metrics.
    Telemetry = "telemetry",
    /// The managed vector store.
    Qdrant = "qdrant",
}

/// Returns true when a text is a DNS subdomain (RFC 1123), as the names of most objects are.
pub fn is_subdomain(text: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.into_iter().all(|end| end.is_some_and(plain))
            && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
    };
    text.len() <= LONGEST_NAME && text.split('.').all(is_label)
}

/// Returns the component of a child by its label.
pub fn component_of(metadata: &ObjectMeta) -> Component {
    let labels = metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get(COMPONENT_LABEL));
    let mut components = Component::WITH_PODS.into_iter();
    components
        .find(|component| label.is_some_and(|label| label == component.as_str()))
        .unwrap_or(Component::Stack)
}

/// Returns the name of a component's objects: `<stack>-<component>`.
pub fn component_name(stack: &str, component: Component) -> String {
    format!("{stack}-{}", component.as_str())
}

/// Returns the labels that select a component's pods. They never change, because selectors of Deployments and
/// StatefulSets are immutable.
pub fn selector_labels(stack: &str, component: Component) -> BTreeMap<String, String> {
    let mut labels = stack_labels(stack);
    labels.insert(COMPONENT_LABEL.to_owned(), component.as_str().to_owned());
    labels
}

/// Returns the labels that select every pod of a stack.
pub fn stack_labels(stack: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (NAME_LABEL.to_owned(), APP_NAME.to_owned()),
        (INSTANCE_LABEL.to_owned(), stack.to_owned()),
    ])
}

/// Returns the selector of the workers' pods in its string form, for the scale subresource.
pub fn worker_selector(stack: &str) -> String {
    format!("{COMPONENT_LABEL}=worker,{INSTANCE_LABEL}={stack},{NAME_LABEL}={APP_NAME}")
}

/// Returns the labels of a component's child objects and pods.
pub fn labels(stack: &str, component: Component) -> BTreeMap<String, String> {
    let mut labels = selector_labels(stack, component);
    labels.insert(MANAGED_BY_LABEL.to_owned(), FIELD_MANAGER.to_owned());
    labels
}

/// Returns the label selector of the children of every stack.
pub fn managed_by_selector() -> String {
    format!("{MANAGED_BY_LABEL}={FIELD_MANAGER},{NAME_LABEL}={APP_NAME}")
}

/// Returns the selector of a component's pods.
pub fn selector(stack: &str, component: Component) -> LabelSelector {
    LabelSelector {
        match_labels: Some(selector_labels(stack, component)),
        ..LabelSelector::default()
    }
}

/// Namespace and name of a stack.
pub type StackKey = (String, String);

/// The identity of a stack as its children carry it: name, namespace and owner reference.
#[derive(Clone, Debug, PartialEq)]
pub struct StackIdentity {
    pub name: String,
    /// Namespace of the stack and of all its children.
    pub namespace: String,
    /// Owner reference, by which the garbage collector deletes a child with its stack.
    pub owner: OwnerReference,
}

impl StackIdentity {
    /// Returns the identity of a live stack; `None` if it has no uid or namespace, as before its creation.
    pub fn of(stack: &impl Resource<DynamicType = ()>) -> Option<Self> {
        let owner = stack.controller_owner_ref(&())?;
        Some(Self {
            name: stack.name_any(),
            namespace: stack.namespace()?,
            owner,
        })
    }

    /// Returns the namespace and the name, the key of a stack in the state of the process.
    pub fn key(&self) -> StackKey {
        (self.namespace.clone(), self.name.clone())
    }

    /// Returns true when an object of the stack's name is this very stack, and is not being deleted.
    pub fn is_live(&self, found: &ObjectMeta) -> bool {
        found.uid.as_ref() == Some(&self.owner.uid) && found.deletion_timestamp.is_none()
    }

    /// Returns the metadata of a child that is deleted with its stack.
    pub fn child(&self, name: impl Into<String>, component: Component) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.into()),
            namespace: Some(self.namespace.clone()),
            labels: Some(labels(&self.name, component)),
            owner_references: Some(vec![self.owner.clone()]),
            ..ObjectMeta::default()
        }
    }

    /// Returns the metadata of a child that outlives its stack.
    pub fn retained(&self, name: impl Into<String>, component: Component) -> ObjectMeta {
        let kept = KEPT_BY_ARGO_CD.into_iter();
        ObjectMeta {
            annotations: Some(
                kept.map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect(),
            ),
            owner_references: None,
            ..self.child(name, component)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_labels_are_frozen() {
        let expected = BTreeMap::from([
            ("app.kubernetes.io/component".to_owned(), "app".to_owned()),
            ("app.kubernetes.io/instance".to_owned(), "acme".to_owned()),
            ("app.kubernetes.io/name".to_owned(), "shortener".to_owned()),
        ]);
        assert_eq!(selector_labels("acme", Component::App), expected);
    }

    #[test]
    fn what_is_no_name_of_an_object_is_told_from_one() {
        for name in ["a", "a-b.c", "0.1", &"a".repeat(253)] {
            assert!(is_subdomain(name), "{name}");
        }
        for text in [
            "",
            "a.",
            "-a",
            "a..b",
            "A",
            "a/b",
            "..",
            "a?b=c",
            &"a".repeat(254),
        ] {
            assert!(!is_subdomain(text), "{text}");
        }
    }
}
