//! The facts that a plan assumes where nothing has been applied yet, or where there is no cluster.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;

use super::{
    references::{self, StoreReference},
    stores,
};
use crate::{
    api::{ShortenerStack, ShortenerStackSpec},
    model::{
        checksum::CHECKSUM_KEY,
        credentials::{JOB_IDS_KEY, MANAGEMENT_KEY, PASSWORD_KEY, USERNAME_KEY},
        external,
        facts::{
            BrokerFact, ClaimFact, ClusterFact, CredentialState, ExternalAccess, Facts,
            GatewayFacts, HeaderFacts, MissingKeys, MoveFacts, PodContents, QueueFacts, Referenced,
            StoreFacts, TlsEntry,
        },
        metadata::{Component, StackIdentity},
        quantity,
    },
};

/// Value of every credential that is not generated yet, or cannot be read.
const PLACEHOLDER: &str = "placeholder";
/// Address of an app whose Service does not exist yet, from a range for documentation.
const ADDRESS: &str = "192.0.2.1";
/// Key of an external store's address if the spec names none.
const URL_KEY: &str = "uri";

/// Keys of its parts.
const PART_KEYS: [&str; 4] = ["host", "port", USERNAME_KEY, PASSWORD_KEY];

/// Replaces what only an apply brings about: credentials that are to be generated and the address of the app, from which its
/// gateway is rendered, by placeholders, volumes by those that have grown, and servers that other operators have yet to make
/// by those that serve. So the plan shows the end, and equal facts give an equal plan.
#[must_use]
pub fn foresee(stack: &ShortenerStack, mut facts: Facts) -> Facts {
    replace_generated(&mut facts.checksum_key);
    replace_generated(&mut facts.job_ids);
    replace_generated(&mut facts.management);
    let stores = std::iter::once(&mut facts.database).chain(facts.optional.values_mut());
    for store in stores {
        if let StoreFacts::Managed {
            credentials, claim, ..
        } = store
        {
            replace_generated(credentials);
            claim.iter_mut().for_each(grow);
        }
    }
    if facts.gateway.upstream.is_none() {
        facts.gateway.upstream = Some(ADDRESS.to_owned());
    }
    start(&stack.spec, &mut facts);
    facts
}

/// Lets a volume have what its claim is going to request. One that is growing already may have failed to.
fn grow(claim: &mut ClaimFact) {
    let sizes = claim.request.as_ref().zip(claim.capacity.as_ref());
    if sizes.is_some_and(|(request, capacity)| quantity::is_same(&request.0, &capacity.0)) {
        claim.capacity = None;
    }
}

/// Lets the servers that other operators have yet to make serve. While links move to them, each step depends on the one
/// before.
fn start(spec: &ShortenerStackSpec, facts: &mut Facts) {
    let stack = &facts.identity.name;
    let is_starting = |fact: &ClusterFact| matches!(fact, ClusterFact::Starting(_));
    let makes_database = spec.database.cloud_native_pg.is_some() && is_starting(&facts.cluster);
    if makes_database && facts.database_move.server.is_none() {
        facts.cluster = ClusterFact::Started;
        complete(references::database(spec, stack), &mut facts.database);
    }
    let makes_broker =
        spec.queue.rabbitmq_cluster.is_some() && is_starting(&facts.broker_cluster.state);
    let optional = references::optional(spec, stack).into_iter();
    let mut brokers = optional.filter(|(store, _)| *store == Component::Rabbitmq);
    if makes_broker
        && let Some(reference) = brokers.next()
        && let Some(broker) = facts.optional.get_mut(&Component::Rabbitmq)
    {
        facts.broker_cluster.state = ClusterFact::Started;
        complete(reference, broker);
    }
}

/// Completes the Secrets of servers that another operator makes.
fn complete(reference: StoreReference, facts: &mut StoreFacts) {
    let StoreFacts::External { found, tls, .. } = &*facts else {
        return;
    };
    let mut files = tls.iter().flatten();
    if found.is_none() || files.any(|file| file.value.is_none()) {
        *facts = store(reference);
    }
}

/// Returns the facts of a cluster without this stack. It has every optional kind, and every Secret that the spec refers
/// to, with the label that admits it.
pub fn presume(stack: &ShortenerStack, identity: StackIdentity) -> Facts {
    let spec = &stack.spec;
    let name = &identity.name;
    let optional = references::optional(spec, name).into_iter();
    Facts {
        checksum_key: CredentialState::Generated(data(&[CHECKSUM_KEY])),
        job_ids: CredentialState::Generated(data(&[JOB_IDS_KEY])),
        management: CredentialState::Generated(data(&[MANAGEMENT_KEY])),
        database: store(references::database(spec, name)),
        optional: optional
            .map(|reference| (reference.0, store(reference)))
            .collect(),
        queue: QueueFacts::default(),
        headers: references::headers_secret(spec).map(|secret| HeaderFacts {
            secret: secret.to_owned(),
            data: Ok(Some(data(&["authorization"]))),
            usable: true,
        }),
        has_monitoring_kinds: true,
        has_gateway_kinds: true,
        cluster: ClusterFact::Started,
        pooler_in_use: false,
        database_move: MoveFacts::default(),
        broker_cluster: BrokerFact::started(),
        backup_claim: None,
        restore_claim_usable: Ok(true),
        vector_key: references::vector_key(spec).map(|reference| Referenced {
            reference: reference.clone(),
            value: Some(placeholder()),
            usable: true,
        }),
        missing_keys: MissingKeys::default(),
        missing_webhook_secrets: BTreeSet::new(),
        gateway: GatewayFacts {
            upstream: Some(ADDRESS.to_owned()),
            ..GatewayFacts::default()
        },
        drill: None,
        rival: None,
        programs: BTreeMap::new(),
        recorded: BTreeMap::new(),
        contents: references::contents(spec, name, false)
            .into_iter()
            .map(|(component, uses)| (component, Ok(PodContents::of_usable(&uses))))
            .collect(),
        identity,
    }
}

fn store((component, reference): StoreReference) -> StoreFacts {
    let Some(reference) = reference else {
        return StoreFacts::Managed {
            credentials: CredentialState::Generated(data(stores::keys(component))),
            running: None,
            claim: None,
        };
    };
    let key = reference.secret.key.as_deref().unwrap_or(URL_KEY);
    let keys = [&[key], &PART_KEYS[..]].concat();
    let entry = |file| TlsEntry {
        file,
        value: Some(placeholder()),
    };
    StoreFacts::External {
        found: ExternalAccess::find(stores::parts(component), &reference, data(&keys)),
        tls: reference
            .tls
            .map(|tls| external::files(&tls).into_iter().map(entry).collect()),
        reference: reference.secret,
    }
}

fn replace_generated(state: &mut CredentialState) {
    if let CredentialState::Generated(data) = state {
        for value in data.values_mut() {
            *value = placeholder();
        }
    }
}

fn data(keys: &[&str]) -> BTreeMap<String, ByteString> {
    let keys = keys.iter();
    keys.map(|key| ((*key).to_owned(), placeholder())).collect()
}

fn placeholder() -> ByteString {
    ByteString(PLACEHOLDER.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::{api::apps::v1::StatefulSet, apimachinery::pkg::api::resource::Quantity};
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        plan::{Plan, diff, plan},
        testing::{shared::stored_stack, stack::defaults},
    };

    fn offline(spec: Value) -> Vec<String> {
        let stack = stored_stack(spec);
        let identity = StackIdentity::of(&stack).unwrap();
        let plan = plan(&stack, presume(&stack, identity), &defaults()).unwrap();
        let children = diff::children(&plan.desired).unwrap();
        children.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn without_a_cluster_everything_that_the_spec_refers_to_is_taken_to_be_there() {
        let reference = json!({"external": {"secretRef": {"name": "links-store"}}});
        let children = offline(json!({
            "profiles": ["caching", "queue", "vector"],
            "database": reference, "cache": reference, "queue": reference,
            "vector": {"external": {
                "secretRef": {"name": "links-vectors", "key": "address"},
                "apiKeySecretRef": {"name": "links-vectors-key", "key": "api-key"},
            }},
            "gateway": {"provider": "Standalone", "auth": {"secretRef": {"name": "links-keys"}}},
        }));
        for child in ["Deployment/acme-gateway", "Deployment/acme-worker"] {
            assert!(children.contains(&child.to_owned()), "{children:?}");
        }
        assert!(!children.contains(&"StatefulSet/acme-postgres".to_owned()));
    }

    #[test]
    fn credentials_that_are_to_be_generated_do_not_make_two_plans_differ() {
        let stack = stored_stack(json!({}));
        let identity = StackIdentity::of(&stack).unwrap();
        let generated = |value: &str| {
            let mut facts = presume(&stack, identity.clone());
            let minted = ByteString(value.as_bytes().to_vec());
            let keys = stores::keys(Component::Postgres);
            let keys = keys.iter().map(|key| ((*key).to_owned(), minted.clone()));
            facts.database = StoreFacts::Managed {
                credentials: CredentialState::Generated(keys.collect()),
                running: None,
                claim: None,
            };
            facts.gateway.upstream = None;
            plan(&stack, foresee(&stack, facts), &defaults())
                .unwrap()
                .desired
        };
        assert_eq!(generated("a"), generated("b"));
        assert!(generated("a").prunable);
    }

    /// Returns the plan of a spec in a cluster of which these facts are other than presumed.
    fn foreseen(spec: Value, edit: impl FnOnce(&mut Facts)) -> Plan {
        let stack = stored_stack(spec);
        let mut facts = presume(&stack, StackIdentity::of(&stack).unwrap());
        edit(&mut facts);
        plan(&stack, foresee(&stack, facts), &defaults()).unwrap()
    }

    #[test]
    fn a_volume_has_grown_in_the_plan_that_lets_it_grow() {
        for (spec, request, volume, usable) in [
            ("1Gi", "1Gi", "1Gi", 1 << 30),
            ("10Gi", "1Gi", "1024Mi", 10 << 30),
            // A growth from before may have failed.
            ("10Gi", "10Gi", "1Gi", 1 << 30),
            ("1Gi", "2Gi", "2Gi", 2 << 30),
        ] {
            let quantity = |size: &str| Some(Quantity(size.to_owned()));
            let existing = ClaimFact {
                request: quantity(request),
                capacity: quantity(volume),
                ..ClaimFact::default()
            };
            let managed = json!({"database": {"managed": {"storage": spec}}});
            let plan = foreseen(managed, |facts| {
                if let StoreFacts::Managed { claim, .. } = &mut facts.database {
                    *claim = Some(existing);
                }
            });
            let database = plan.stack.database.as_ref().unwrap();
            let found = database.managed().unwrap().volume.as_ref().unwrap();
            assert_eq!(found.usable_bytes(), Some(usable), "{spec} {request}");
        }
    }

    /// Empties the Secret of a store that another operator makes.
    fn begin(store: &mut StoreFacts) {
        if let StoreFacts::External { found, tls, .. } = store {
            *found = None;
            let files = tls.iter_mut().flatten();
            files.for_each(|file| file.value = None);
        }
    }

    fn beginning(facts: &mut Facts) {
        facts.cluster = ClusterFact::Starting(None);
        begin(&mut facts.database);
        facts.broker_cluster.state = ClusterFact::Starting(Some("1/3".to_owned()));
        facts.optional.values_mut().for_each(begin);
    }

    #[test]
    fn servers_that_other_operators_have_yet_to_make_serve_in_the_plan() {
        let spec = json!({
            "profiles": ["queue"],
            "database": {"cloudNativePG": {}}, "queue": {"rabbitmqCluster": {}},
        });
        let plan = foreseen(spec, beginning);
        assert_eq!(plan.stack.held, BTreeMap::new());
        let children = diff::children(&plan.desired).unwrap();
        let children: Vec<String> = children.iter().map(ToString::to_string).collect();
        for child in [
            "Cluster/acme-pg",
            "RabbitmqCluster/acme-mq",
            "Deployment/acme-worker",
        ] {
            assert!(children.contains(&child.to_owned()), "{children:?}");
        }
        // Another store whose Secret is missing is held.
        let external = json!({"external": {"secretRef": {"name": "links-store"}}});
        let plan = foreseen(json!({"database": external}), beginning);
        assert_eq!(
            plan.stack.held[&Component::Postgres].reason,
            "SecretNotFound"
        );
    }

    #[test]
    fn links_move_step_by_step_in_the_plan_too() {
        let plan = foreseen(json!({"database": {"cloudNativePG": {}}}), |facts| {
            beginning(facts);
            facts.database_move = MoveFacts {
                server: Some(Arc::new(StatefulSet::default())),
                username: Some("shortener".to_owned()),
                ..MoveFacts::default()
            };
        });
        let held = &plan.stack.held[&Component::Postgres];
        assert_eq!((held.reason, held.waits), ("MoveFreezing", true));
    }
}
