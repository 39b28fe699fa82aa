//! Resolution of the job queue.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use kube_core::ResourceExt;

use super::{cluster, default_resources};
use crate::{
    api::QueueSpec,
    model::{
        credentials::{OPERATOR_PASSWORD_KEY, PASSWORD_KEY, USERNAME_KEY},
        facts::{ClusterFact, CredentialState, ExternalAccess, StoreFacts},
        metadata::{Component, component_name},
        quantity,
        stack::{BrokerOperator, Draining, Queue, Workers},
        topology::QueueLimits,
    },
    plan::{
        error::ValidateError,
        pod_settings::pod,
        stores::common::{Offered, RequestedStore, Rule, Steps, StoreContext, usable, volume},
    },
};

/// The tasks that need no key if the spec names none: every task, except those that have to be named.
const PUBLIC_TASKS: &str = "*";
/// Maximum number of dead letters if the spec contains none.
const DEAD_LETTERS: i32 = 10_000;
/// Maximum size of all dead letters together if the spec contains none: a small part of the smallest volume.
const DEAD_LETTER_BYTES: &str = "64Mi";

/// Purpose of the first password of the operator's user.
const OPERATOR_PURPOSE: &str = "the operator's user of the broker";

/// Its rule for other versions than that of its data.
pub(in crate::plan::stores) const RULE: Rule = Rule {
    field: "queue.managed.image",
    noun: "RabbitMQ",
    steps: Steps::NextMinor,
    instead: "",
};

/// Resolves the queue. `workers` take its jobs, unless it is in a RabbitmqCluster that has not started.
pub(in crate::plan) fn resolve(
    context: &StoreContext<'_>,
    (facts, cluster): (StoreFacts, &ClusterFact),
    workers: Workers,
    draining: Option<Draining>,
) -> Result<Queue, ValidateError> {
    cluster::check(context.stack, cluster)?;
    let spec = &context.stack.spec.queue;
    let managed = spec.managed.as_deref().cloned().unwrap_or_default();
    let default = context.defaults.images.rabbitmq.as_str();
    let offered = Offered {
        named: managed.pod.image.as_deref(),
        default,
    };
    let claim = component_name(&context.stack.name_any(), Component::Rabbitmq);
    let chosen = RULE.choose(&facts, &offered, &claim, |_| Some(default))?;
    let server = pod(&managed.pod, chosen.image, default_resources());
    let kept = volume(managed.storage, managed.storage_class_name).chosen(&chosen);
    let limits = server.resources.limits.clone().unwrap_or_default();
    let memory = limits.get("memory").map(|limit| limit.0.as_str());
    let broker_memory =
        memory
            .and_then(quantity::bytes)
            .ok_or_else(|| ValidateError::NotASize {
                field: "queue.managed.resources.limits.memory",
                value: memory.unwrap_or_default().to_owned(),
            })?;
    let wanted = RequestedStore {
        component: Component::Rabbitmq,
        pod: server,
        volume: Some(kept),
    };
    Ok(Queue {
        operator: operator(context, &facts)?,
        store: context.store(wanted, facts)?,
        limits: queue_limits(spec)?,
        public_tasks: spec
            .public_tasks
            .clone()
            .unwrap_or_else(|| BTreeSet::from([PUBLIC_TASKS.to_owned()])),
        broker_memory,
        workers,
        draining,
    })
}

/// Returns the user with which the operator uses the management API. That of a RabbitmqCluster is its default user, because
/// nothing else makes one. On a managed broker it has its own. Its first password follows from the stack's own key, which is
/// random, so a Secret that is restored without it needs no more than the user and the password of the programs. As soon
/// as the Secret has a password, that one counts.
fn operator(
    context: &StoreContext<'_>,
    facts: &StoreFacts,
) -> Result<Option<BrokerOperator>, ValidateError> {
    let data = match facts {
        StoreFacts::Managed {
            credentials: CredentialState::Existing(data) | CredentialState::Generated(data),
            ..
        } => data,
        StoreFacts::External {
            found: Some(found), ..
        } if context.stack.spec.queue.rabbitmq_cluster.is_some() => {
            return Ok(default_user(context, found));
        }
        _ => return Ok(None),
    };
    let Some(programs) = data.get(USERNAME_KEY) else {
        return Ok(None);
    };
    let programs = String::from_utf8_lossy(&programs.0);
    let stored = data.get(OPERATOR_PASSWORD_KEY);
    let stored = stored.filter(|stored| !stored.0.is_empty()).cloned();
    let first = || ByteString(context.derived_password(OPERATOR_PURPOSE).into_bytes());
    let password = stored.unwrap_or_else(first);
    let secret = component_name(&context.stack.name_any(), Component::Rabbitmq);
    usable(&secret, OPERATOR_PASSWORD_KEY, &password)?;
    let entry = BTreeMap::from([(OPERATOR_PASSWORD_KEY.to_owned(), password.clone())]);
    Ok(Some(BrokerOperator {
        // Never the name of the programs' user.
        username: format!("{programs}-operator"),
        password,
        checksum: context.checksum(&entry),
    }))
}

fn default_user(context: &StoreContext<'_>, found: &ExternalAccess) -> Option<BrokerOperator> {
    let entry = |key: &str| found.entries.get(key).cloned();
    Some(BrokerOperator {
        username: String::from_utf8_lossy(&entry(USERNAME_KEY)?.0).into_owned(),
        password: entry(PASSWORD_KEY)?,
        checksum: context.checksum(&found.entries),
    })
}

fn queue_limits(spec: &QueueSpec) -> Result<QueueLimits, ValidateError> {
    let dead_letters = spec.dead_letters.clone().unwrap_or_default();
    let bytes = dead_letters.max_bytes.as_deref();
    let bytes = bytes.unwrap_or(DEAD_LETTER_BYTES);
    Ok(QueueLimits {
        deliveries: spec.delivery_limit,
        dead_letters: dead_letters.max_length.unwrap_or(DEAD_LETTERS),
        dead_letter_bytes: quantity::bytes(bytes).ok_or_else(|| ValidateError::NotASize {
            field: "queue.deadLetters.maxBytes",
            value: bytes.to_owned(),
        })?,
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        model::{
            checksum::CHECKSUM_KEY,
            credentials::PASSWORD_KEY,
            stack::Credential,
            topology::{Policy, policies},
        },
        testing::{shared::stored_stack, stack::defaults},
    };

    const PAGE: &str = include_str!("../../../../../../docs/queue.md");
    const EXAMPLE: &str = include_str!("../../../../../../examples/queue-rabbitmq-operator.yaml");

    /// Returns the policies of a managed broker without any setting.
    fn default_policies() -> [Policy; 2] {
        policies(queue_limits(&QueueSpec::default()).unwrap())
    }

    #[test]
    fn the_documentation_sets_the_same_policies_on_an_external_broker() {
        for policy in default_policies() {
            let Policy {
                name,
                pattern,
                apply_to,
                ..
            } = &policy;
            let command =
                format!("rabbitmqctl set_policy {name} '{pattern}' --apply-to {apply_to} '");
            let mut lines = PAGE.lines();
            let found = lines.find_map(|line| line.strip_prefix(&*command)?.strip_suffix('\''));
            let definition: Value = serde_json::from_str(found.unwrap()).unwrap();
            assert_eq!(definition, policy.definition);
        }
    }

    #[test]
    fn the_example_sets_the_same_policies_on_an_external_broker() {
        let documents = serde_yaml::Deserializer::from_str(EXAMPLE);
        let objects = documents.map(|document| Value::deserialize(document).unwrap());
        let of_policies = objects.filter(|object| object["kind"] == "Policy");
        let found = of_policies.map(|object| {
            let spec = &object["spec"];
            let text = |field: &str| spec[field].as_str().unwrap().to_owned();
            Policy {
                name: text("name"),
                pattern: text("pattern"),
                apply_to: text("applyTo"),
                priority: 0,
                definition: spec["definition"].clone(),
            }
        });
        assert_eq!(found.collect::<Vec<_>>(), default_policies());
    }

    /// Returns the operator's user for a Secret with these entries beside the user and the password of the programs.
    fn operator_of(key: &str, entries: &[(&str, &str)]) -> BrokerOperator {
        let data = |entries: &[(&str, &str)]| -> BTreeMap<String, ByteString> {
            let entries = entries.iter();
            entries
                .map(|(key, value)| ((*key).to_owned(), ByteString((*value).into())))
                .collect()
        };
        let own = [(USERNAME_KEY, "shop"), (PASSWORD_KEY, "s3cret")];
        let facts = StoreFacts::Managed {
            credentials: CredentialState::Existing(data(&[&own[..], entries].concat())),
            running: None,
            claim: None,
        };
        let context = StoreContext {
            stack: &stored_stack(json!({})),
            checksum_key: &Credential {
                data: data(&[(CHECKSUM_KEY, key)]),
                is_new: false,
            },
            defaults: &defaults(),
        };
        operator(&context, &facts).unwrap().unwrap()
    }

    #[test]
    fn the_operator_has_a_password_before_the_secret_has_one() {
        let first = operator_of("key", &[]);
        assert_eq!(first.username, "shop-operator");
        let text = String::from_utf8(first.password.0.clone()).unwrap();
        assert_eq!(operator_of("key", &[(OPERATOR_PASSWORD_KEY, "")]), first);
        assert_eq!(operator_of("key", &[(OPERATOR_PASSWORD_KEY, &text)]), first);
        assert_ne!(operator_of("other", &[]).password, first.password);
    }

    #[test]
    fn the_password_in_the_secret_counts() {
        let stored = [(OPERATOR_PASSWORD_KEY, "mine")];
        let [rotated, same] = ["key", "other"].map(|key| operator_of(key, &stored));
        assert_eq!(rotated.password.0, b"mine");
        assert_eq!(same.password, rotated.password);
        assert!(!format!("{rotated:?}").contains("mine"));
    }

    #[test]
    fn dead_letters_are_bounded_also_without_a_setting() {
        let table: [(Value, i32, u64); 4] = [
            (json!({}), 10_000, 64 << 20),
            (json!({"deadLetters": {}}), 10_000, 64 << 20),
            (json!({"deadLetters": {"maxLength": 7}}), 7, 64 << 20),
            (json!({"deadLetters": {"maxBytes": "2Mi"}}), 10_000, 2 << 20),
        ];
        for (spec, dead_letters, dead_letter_bytes) in table {
            let found = queue_limits(&serde_json::from_value(spec.clone()).unwrap()).unwrap();
            let expected = QueueLimits {
                deliveries: 5,
                dead_letters,
                dead_letter_bytes,
            };
            assert_eq!(found, expected, "{spec}");
        }
    }
}
