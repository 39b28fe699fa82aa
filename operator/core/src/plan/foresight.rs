//! The facts that a plan assumes where nothing has been applied yet, or where there is no cluster.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;

use super::{
    references::{self, StoreReference},
    stores,
};
use crate::{
    api::ShortenerStack,
    model::{
        checksum::CHECKSUM_KEY,
        credentials::{JOB_IDS_KEY, MANAGEMENT_KEY, PASSWORD_KEY, USERNAME_KEY},
        external,
        facts::{
            BrokerFact, ClusterFact, CredentialState, ExternalAccess, Facts, GatewayFacts,
            HeaderFacts, MissingKeys, MoveFacts, PodContents, QueueFacts, Referenced, StoreFacts,
            TlsEntry,
        },
        metadata::StackIdentity,
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

/// Replaces what only an apply brings about by placeholders: credentials that are to be generated, and the address of
/// the app, from which its gateway is rendered. So equal facts give an equal plan.
#[must_use]
pub fn foresee(mut facts: Facts) -> Facts {
    replace_generated(&mut facts.checksum_key);
    replace_generated(&mut facts.job_ids);
    replace_generated(&mut facts.management);
    let stores = std::iter::once(&mut facts.database).chain(facts.optional.values_mut());
    for store in stores {
        if let StoreFacts::Managed { credentials, .. } = store {
            replace_generated(credentials);
        }
    }
    if facts.gateway.upstream.is_none() {
        facts.gateway.upstream = Some(ADDRESS.to_owned());
    }
    facts
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
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        plan::{diff, plan},
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
            let keys = stores::keys(crate::model::metadata::Component::Postgres);
            let keys = keys.iter().map(|key| ((*key).to_owned(), minted.clone()));
            facts.database = StoreFacts::Managed {
                credentials: CredentialState::Generated(keys.collect()),
                running: None,
                claim: None,
            };
            facts.gateway.upstream = None;
            plan(&stack, foresee(facts), &defaults()).unwrap().desired
        };
        assert_eq!(generated("a"), generated("b"));
        assert!(generated("a").prunable);
    }
}
