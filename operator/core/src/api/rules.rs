//! CEL rules that several fields share.
//!
//! A rule about a transition is on the spec and not on its field, because Kubernetes does not evaluate it on a field
//! that either side lacks. The rules about sizes are on the whole resource, because they also read the status.

use kube_core::Rule;

use super::{DEFAULT_BACKEND_STORAGE, DEFAULT_BACKUP_STORAGE, DEFAULT_STORAGE};

/// The members of a broker that RabbitMQ's operator runs.
const MEMBERS: &str = "queue.rabbitmqCluster";
/// The settings of the stack's own backend.
const BACKEND: &str = "observability.backend.managed";

/// Returns the rule that a stack with a console has keys: without one, nobody can sign in.
pub(super) fn console_needs_keys() -> Rule {
    rule(
        "!has(self.console) || !self.console.enabled || has(self.gateway.auth)".to_owned(),
        "console.enabled needs gateway.auth: set a Secret with the keys of those who sign in, or remove console"
            .to_owned(),
    )
}

/// Returns the rule that the console has a host of its own only beside the hosts of links.
pub(super) fn console_host_is_another() -> Rule {
    rule(
        "!has(self.console) || !has(self.console.host) || \
         (has(self.gateway.hosts) && size(self.gateway.hosts) > 0 && !(self.console.host in self.gateway.hosts))"
            .to_owned(),
        "console.host needs gateway.hosts, and is none of them: set the hosts of the links, and another one for the console"
            .to_owned(),
    )
}

/// Returns the rule that annotations of the console have an object of its own.
pub(super) fn console_annotations_have_a_place() -> Rule {
    rule(
        "!has(self.console) || !has(self.console.annotations) || size(self.console.annotations) == 0 || \
         (has(self.console.host) && self.gateway.provider != 'Standalone')"
            .to_owned(),
        "console.annotations needs console.host, and gateway.provider IngressNginx or GatewayAPI: set console.host, or remove the annotations"
            .to_owned(),
    )
}

/// Returns the rule that the operator runs a server or does not, but not both.
pub(super) fn managed_or_external(field: &str) -> Rule {
    rule(
        "!(has(self.managed) && has(self.external))".to_owned(),
        format!("{field}.managed and {field}.external exclude each other: remove one of them"),
    )
}

/// Returns the rule that a stack passes to another operator only while it is paused, so that two never write to it.
pub(super) fn keeps_its_operator() -> Rule {
    let class = |object| value(object, "operatorClass", "''");
    rule(
        format!("(self.paused && oldSelf.paused) || {}", unchanged(class)),
        "operatorClass can change only while the stack is paused: set paused to true, change operatorClass, then set paused to false"
            .to_owned(),
    )
}

/// Returns the rule that only a new stack begins with a backup, or a paused one, whose database may lose its volume.
pub(super) fn restores_into_an_empty_database() -> Rule {
    let field = "database.restoreFrom";
    let (new, old) = (present("self", field), present("oldSelf", field));
    rule(
        format!("!({new}) || ({old} && self.{field} == oldSelf.{field}) || (self.paused && oldSelf.paused)"),
        "database.restoreFrom can be set only when a stack is created, or while it is paused: create a new stack with it"
            .to_owned(),
    )
}

/// Returns the rule that a running stack gets a Cluster only in place of a managed database, from which the operator moves
/// the links, and loses it only while it is paused: the links would be in the other database.
pub(super) fn gets_its_cluster_with_the_links() -> Rule {
    let cluster = |object| format!("({})", present(object, "database.cloudNativePG"));
    let (new, old) = (cluster("self"), cluster("oldSelf"));
    let external = present("oldSelf", "database.external");
    rule(
        format!("(self.paused && oldSelf.paused) || {new} == {old} || ({new} && !({external}))"),
        "database.cloudNativePG can be removed, or replace database.external, only while the stack is paused, because the operator moves links only from database.managed: set paused to true, move them as docs/high-availability.md describes, then set paused to false".to_owned(),
    )
}

/// Returns the rule that a stack gets or loses a field only while it is paused, because its data would be elsewhere.
pub(super) fn comes_and_goes_in_a_pause(field: &str, reason: &str) -> Rule {
    let has = |object| present(object, field);
    rule(
        format!("(self.paused && oldSelf.paused) || {}", unchanged(has)),
        format!("{field} can be added or removed only while the stack is paused, because {reason}"),
    )
}

/// Returns the rule that a broker loses no members: RabbitMQ's operator refuses that.
pub(super) fn keeps_its_members() -> Rule {
    let (new, old) = (present("self", MEMBERS), present("oldSelf", MEMBERS));
    rule(
        format!("!({new}) || !({old}) || self.{MEMBERS}.replicas >= oldSelf.{MEMBERS}.replicas"),
        format!(
            "{MEMBERS}.replicas cannot shrink, because the members that go would take their copies of the jobs along: keep the number, or drain the queue into a new stack"
        ),
    )
}

/// A store that the operator can run on a volume.
pub(super) struct ManagedStore {
    /// Name of its field in the spec.
    name: &'static str,
    /// Names of the fields beside `managed`. With one of them, the operator has no volume for it.
    others: &'static [&'static str],
}

pub(super) const DATABASE: ManagedStore = ManagedStore {
    name: "database",
    others: &["external", "cloudNativePG"],
};
pub(super) const QUEUE: ManagedStore = ManagedStore {
    name: "queue",
    others: &["external", "rabbitmqCluster"],
};
pub(super) const VECTOR: ManagedStore = ManagedStore {
    name: "vector",
    others: &["external"],
};

impl ManagedStore {
    /// Returns the condition that the operator does not run the store before or after the change, from the path of the spec.
    fn is_external(&self, spec: &str) -> String {
        let fields = self.others.iter().flat_map(|other| {
            let path = format!("{spec}{}.{other}", self.name);
            ["self", "oldSelf"].map(|object| format!("({})", present(object, &path)))
        });
        fields.collect::<Vec<_>>().join(" || ")
    }

    /// Returns the rule that the volume does not shrink.
    pub(super) fn never_shrinks(&self, remedy: &str) -> Rule {
        let size = VolumeSize {
            field: &format!("{}.managed.storage", self.name),
            recorded: self.name,
            default: DEFAULT_STORAGE,
        };
        size.never_shrinks(&self.is_external("spec."), remedy)
    }

    /// Returns the rule that the storage class does not change.
    pub(super) fn keeps_its_class(&self, remedy: &str) -> Rule {
        let field = format!("{}.managed.storageClassName", self.name);
        let class = |object| value(object, &field, "''");
        rule(
            format!("{} || {}", self.is_external(""), unchanged(class)),
            format!("{field} cannot change: {remedy}"),
        )
    }
}

/// Returns the rule that the volume of the vector store does not shrink while its profile is on.
pub(super) fn vector_never_shrinks(remedy: &str) -> Rule {
    let mut rule = VECTOR.never_shrinks(remedy);
    rule.rule = format!("{} || {}", vector_is_off("spec.profiles"), rule.rule);
    rule
}

/// Returns the rule that the volume of the stack's own backend does not shrink.
pub(super) fn backend_never_shrinks(remedy: &str) -> Rule {
    let size = VolumeSize {
        field: &format!("{BACKEND}.storage"),
        recorded: "backend",
        default: DEFAULT_BACKEND_STORAGE,
    };
    size.never_shrinks(&has_no_backend(&format!("spec.{BACKEND}")), remedy)
}

/// Returns the rule that the volume of the backups does not shrink.
pub(super) fn backup_never_shrinks(remedy: &str) -> Rule {
    let size = VolumeSize {
        field: "database.backup.volume.storage",
        recorded: "backup",
        default: DEFAULT_BACKUP_STORAGE,
    };
    let has_none = |object| format!("!({})", present(object, "spec.database.backup.volume"));
    let exception = format!("{} || {}", has_none("self"), has_none("oldSelf"));
    size.never_shrinks(&exception, remedy)
}

/// The size of a volume.
struct VolumeSize<'a> {
    /// Path of the size in the spec.
    field: &'a str,
    /// Name of the size in `status.volumes`.
    recorded: &'a str,
    /// Size if the spec contains none.
    default: &'a str,
}

impl VolumeSize<'_> {
    /// Returns the rule that the size does not shrink, other than to the one that the volume has: after a growth that was
    /// refused, the stack could not become healthy again without a way back.
    fn never_shrinks(&self, exception: &str, remedy: &str) -> Rule {
        let Self {
            field,
            recorded,
            default,
        } = self;
        let path = format!("spec.{field}");
        let size = |object| {
            let size = value(object, &path, &format!("'{default}'"));
            format!("quantity({size})")
        };
        let (new, old) = (size("self"), size("oldSelf"));
        // An update of the spec cannot change the status.
        let recorded = format!("status.volumes.{recorded}");
        let is_recorded = present("oldSelf", &recorded);
        let volume = format!("oldSelf.{recorded}");
        let shrinks = rule(
            format!(
                "{exception} || {new}.compareTo({old}) >= 0 || \
                 ({is_recorded} && isQuantity({volume}) && {new}.compareTo(quantity({volume})) >= 0)"
            ),
            format!("{field} cannot shrink (absent means {default}): {remedy}"),
        );
        shrinks.field_path(format!(".{path}"))
    }
}

/// Returns the rule that a value of the vector store does not change while its profile is on.
pub(super) fn vector_keeps(name: &str, default: &str, remedy: &str) -> Rule {
    let kept = |object| value(object, &format!("vector.{name}"), default);
    rule(
        format!("{} || {}", vector_is_off("profiles"), unchanged(kept)),
        format!(
            "vector.{name} cannot change while the profile is on: switch the profile off, {remedy}, and switch the profile on"
        ),
    )
}

/// Returns the rule that the storage class of the stack's own backend does not change.
pub(super) fn backend_keeps_its_class(remedy: &str) -> Rule {
    let class = |object| backend_value(object, "storageClassName", "''");
    rule(
        format!("{} || {}", has_no_backend(BACKEND), unchanged(class)),
        format!("{BACKEND}.storageClassName cannot change: {remedy}"),
    )
}

/// Returns the rule that the workers follow the queue of a broker that the operator runs: it knows no other.
pub(super) fn scales_by_its_own_queue() -> Rule {
    let autoscaling = present("self", "workers.autoscaling");
    let external = present("self", "queue.external");
    rule(
        format!("!({autoscaling} && {external})"),
        "workers.autoscaling needs a queue that the operator manages, and queue.external is set: remove \
         workers.autoscaling, and let KEDA or a HorizontalPodAutoscaler scale the stack"
            .to_owned(),
    )
}

/// Returns the rule that the text in a field is a schedule that Kubernetes takes in a CronJob, which also takes names of
/// days and months. A range that falls passes here, because no rule can compare parts of a text within the API server's
/// limits of cost. Kubernetes then refuses the CronJob, and a condition quotes it.
pub(super) fn schedule(field: &str) -> Rule {
    let message = format!("{field} is not a schedule: {HOW_TO_WRITE_A_SCHEDULE}");
    rule(format!("self.matches('^({})$')", times()), message)
}

/// Returns the rule of [`schedule`] for a field that may be empty.
pub(super) fn schedule_or_never(field: &str) -> Rule {
    let message =
        format!("{field} is not a schedule: {HOW_TO_WRITE_A_SCHEDULE}, or nothing for never");
    rule(format!("self.matches('^({})?$')", times()), message)
}

const HOW_TO_WRITE_A_SCHEDULE: &str = "write the five fields of cron in UTC with numbers, such as 17 3 * * *, where 0 is Sunday, or @daily";

fn times() -> String {
    let numbers = [
        "[0-5]?[0-9]",
        "([01]?[0-9]|2[0-3])",
        "(0?[1-9]|[12][0-9]|3[01])",
        "(0?[1-9]|1[0-2])",
        "0?[0-6]",
    ];
    let fields = numbers.map(|number| {
        let step = "(/[1-9][0-9]?)?";
        let part = format!("([*]{step}|{number}(-{number}{step})?)");
        format!("{part}(,{part})*")
    });
    format!("{}|@(hourly|daily|weekly|monthly|yearly)", fields.join(" "))
}

/// Limits a rule to changes while the profile `vector` is on.
pub(super) fn while_vector_is_on(rule: Rule) -> Rule {
    Rule {
        rule: format!("{} || {}", vector_is_off("profiles"), rule.rule),
        ..rule
    }
}

fn rule(expression: String, message: String) -> Rule {
    Rule::new(expression).message(message.as_str())
}

/// Returns the condition that the value of an expression does not change.
fn unchanged(value: impl Fn(&'static str) -> String) -> String {
    format!("({}) == ({})", value("self"), value("oldSelf"))
}

/// Returns the condition that the profile `vector` is off before or after the change, from the path of the profiles.
fn vector_is_off(profiles: &str) -> String {
    let on = |object: &str| {
        let are_named = present(object, profiles);
        format!("{are_named} && 'vector' in {object}.{profiles}")
    };
    format!("!({} && {})", on("self"), on("oldSelf"))
}

/// Returns the condition that the stack has no backend of its own before or after the change, from the path of its
/// settings.
fn has_no_backend(backend: &str) -> String {
    format!(
        "!({}) || !({})",
        present("self", backend),
        present("oldSelf", backend)
    )
}

/// Returns the expression for a setting of the stack's own backend, which exists, with a default.
fn backend_value(object: &str, name: &str, default: &str) -> String {
    let path = format!("{object}.{BACKEND}.{name}");
    format!("has({path}) ? {path} : {default}")
}

/// Returns the expression for the value at a path, with a default.
fn value(object: &str, path: &str, default: &str) -> String {
    format!("{} ? {object}.{path} : {default}", present(object, path))
}

/// Returns the condition that an object has each field of a path.
fn present(object: &str, path: &str) -> String {
    let mut field = object.to_owned();
    let checks = path.split('.').map(|name| {
        field = format!("{field}.{name}");
        format!("has({field})")
    });
    checks.collect::<Vec<_>>().join(" && ")
}
