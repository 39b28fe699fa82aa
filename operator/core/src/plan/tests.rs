//! Every field of the resource, mutated (fault F14): a value is refused with a message that names the field, or it is
//! accepted. Then the children are those of a new stack with the same spec, going back gives the earlier children, and
//! the pods of a component that the field does not concern do not restart.

mod concerns;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec};
use kube_core::ResourceExt;
use serde_json::{Value, json};

use concerns::concerned;

use super::*;
use crate::{
    api::ShortenerStackSpec,
    model::{
        facts::{ClaimFact, RunningServer, StoreFacts},
        metadata::{Component, DATA_VERSION, component_name},
    },
    testing::{
        admission::Admission,
        mutation::{Mutation, mutations},
        shared::stored_stack,
        stack::{defaults, facts},
    },
};

/// A cluster in which the stack is live.
struct Cluster<'a> {
    /// Objects of the spec that was applied last.
    desired: &'a Desired,
    /// Objects of an earlier spec, whose volumes remain.
    earlier: &'a Desired,
}

impl Cluster<'_> {
    fn observe(&self, component: Component, store: &mut StoreFacts) {
        let StoreFacts::Managed { running, claim, .. } = store else {
            return;
        };
        let name = component_name("acme", component);
        *running = templates(self.desired).get(&name).and_then(|template| {
            let pod = template.spec.as_ref()?;
            Some(RunningServer {
                image: pod.containers.first()?.image.clone()?,
                is_ready: true,
            })
        });
        let kept = claim_of(self.desired, &name).or_else(|| claim_of(self.earlier, &name));
        *claim = kept.map(ClaimFact::of);
    }
}

fn claim_of<'a>(desired: &'a Desired, name: &str) -> Option<&'a PersistentVolumeClaim> {
    let mut claims = desired.children.claims.iter();
    claims.find(|claim| claim.name_any() == name)
}

/// Returns the pod template of each workload.
fn templates(desired: &Desired) -> BTreeMap<String, &PodTemplateSpec> {
    let deployments = desired.children.deployments.iter().filter_map(|object| {
        let spec = object.spec.as_ref()?;
        Some((object.name_any(), &spec.template))
    });
    let sets = desired.children.stateful_sets.iter().filter_map(|object| {
        let spec = object.spec.as_ref()?;
        Some((object.name_any(), &spec.template))
    });
    deployments.chain(sets).collect()
}

/// Returns the children that a spec gives, on a new stack or on a live one, or the reason why a component is held.
fn children(spec: &ShortenerStackSpec, cluster: Option<&Cluster<'_>>) -> Result<Desired, String> {
    let mut stack = stored_stack(json!({}));
    stack.spec = spec.clone();
    let mut facts = facts(spec);
    facts.has_gateway_kinds = true;
    facts.has_monitoring_kinds = true;
    facts.gateway.upstream = Some("10.96.0.42".to_owned());
    if let Some(cluster) = cluster {
        cluster.observe(Component::Postgres, &mut facts.database);
        for (component, store) in &mut facts.optional {
            cluster.observe(*component, store);
        }
    }
    let planned = plan(&stack, facts, &defaults()).map_err(|error| error.to_string())?;
    let mut held = planned.stack.held.into_values();
    held.next()
        .map_or(Ok(planned.desired), |failure| Err(failure.message))
}

/// Returns the objects without what an existing volume keeps: its size, its class, the record of the server that initialised
/// it, and the space that the app has on it.
fn without_past(desired: &Desired) -> Desired {
    let mut desired = desired.clone();
    for claim in &mut desired.children.claims {
        claim.annotations_mut().remove(DATA_VERSION);
        claim.spec = None;
    }
    let deployments = desired.children.deployments.iter_mut();
    let pods = deployments.filter_map(|object| object.spec.as_mut()?.template.spec.as_mut());
    let containers = pods.flat_map(|pod| {
        let init = pod.init_containers.iter_mut().flatten();
        init.chain(&mut pod.containers)
    });
    for container in containers {
        let env = container.env.get_or_insert_default();
        env.retain(|variable| variable.name != "DATABASE_CAPACITY_BYTES");
    }
    desired
}

/// Returns the first difference between two sets of objects, with the name of an object that has it.
fn difference(found: &Desired, expected: &Desired) -> Option<String> {
    let (found, expected) = (without_past(found), without_past(expected));
    if found == expected {
        return None;
    }
    let (found, expected) = (format!("{found:#?}"), format!("{expected:#?}"));
    let mut object = "";
    for (found, expected) in found.lines().zip(expected.lines()) {
        if found != expected {
            return Some(format!("{object}: {found} is not {expected}"));
        }
        if found.trim_start().starts_with("\"acme") {
            object = found.trim();
        }
    }
    Some(format!("{object}: something more or less after it"))
}

/// The result of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Judgement {
    /// The API server refuses it.
    NotAdmitted,
    /// The operator refuses it.
    Invalid,
    Accepted,
    /// It is stored like an earlier one.
    Known,
}

/// A stack that is mutated.
struct Base<'a> {
    admission: &'a Admission,
    spec: ShortenerStackSpec,
    desired: Desired,
    seen: BTreeSet<String>,
}

impl<'a> Base<'a> {
    fn new(admission: &'a Admission, spec: &Value) -> Self {
        let stored = admission.store(spec).unwrap();
        admission.judge(&stored).unwrap();
        let spec: ShortenerStackSpec = serde_json::from_value(stored).unwrap();
        Self {
            admission,
            desired: children(&spec, None).unwrap(),
            spec,
            seen: BTreeSet::new(),
        }
    }

    fn mutate(&mut self, mutation: &Mutation) -> Judgement {
        let fields: Vec<&str> = mutation.fields().collect();
        let case = format!("spec.{}: {}", mutation.path.join("."), mutation.what);
        let names_it = |message: &str| {
            let named = fields.iter().any(|field| message.contains(field));
            assert!(named, "{case}: the message names no such field: {message}");
        };
        let stored = match self.admission.store(&mutation.spec) {
            Ok(stored) => stored,
            Err(refusals) => {
                names_it(&refusals.join("; "));
                return Judgement::NotAdmitted;
            }
        };
        if !self.seen.insert(stored.to_string()) {
            return Judgement::Known;
        }
        if let Err(refusals) = self.admission.judge(&stored) {
            names_it(&refusals.join("; "));
            return Judgement::NotAdmitted;
        }
        let spec: ShortenerStackSpec = serde_json::from_value(stored)
            .unwrap_or_else(|error| panic!("{case}: it is admitted and cannot be read: {error}"));
        let fresh = match children(&spec, None) {
            Ok(fresh) => fresh,
            Err(error) => {
                names_it(&error);
                return Judgement::Invalid;
            }
        };
        let before = Cluster {
            desired: &self.desired,
            earlier: &self.desired,
        };
        let changed = match children(&spec, Some(&before)) {
            Ok(changed) => changed,
            Err(error) => {
                names_it(&error);
                return Judgement::Invalid;
            }
        };
        self.compare(&case, &fields, &fresh, &changed);
        Judgement::Accepted
    }

    fn compare(&self, case: &str, fields: &[&str], fresh: &Desired, changed: &Desired) {
        if let Some(difference) = difference(changed, fresh) {
            panic!("{case}: a new stack has other children: {difference}");
        }
        let after = Cluster {
            desired: changed,
            earlier: &self.desired,
        };
        let back = children(&self.spec, Some(&after))
            .unwrap_or_else(|error| panic!("{case}: there is no way back: {error}"));
        if let Some(difference) = difference(&back, &self.desired) {
            panic!("{case}: going back gives other children: {difference}");
        }
        let concerned = concerned(fields);
        let (before, after) = (templates(&self.desired), templates(changed));
        for component in Component::WITH_PODS {
            let name = component_name("acme", component);
            let (Some(before), Some(after)) = (before.get(&name), after.get(&name)) else {
                continue;
            };
            if !concerned.contains(&component) {
                assert_eq!(after, before, "{case}: the pods of {name} restart");
            }
        }
    }
}

/// Returns specs, each with the section that is mutated if it is not the whole.
fn bases() -> [(Value, Option<&'static str>); 3] {
    let gateway = |gateway: Value| json!({"gateway": gateway});
    [
        (
            json!({
                "profiles": ["caching", "queue", "observability", "vector"],
                "observability": {"backend": {"managed": {}}},
                "gateway": {"hosts": ["go.example.com"]},
                "links": {"webhooks": [{
                    "name": "crm", "url": "https://hooks.example.com", "secretRef": {"name": "crm"},
                }]},
                "monitoring": {"enabled": true},
            }),
            None,
        ),
        (
            gateway(json!({
                "provider": "Standalone",
                "hosts": ["go.example.com"],
                "serviceType": "LoadBalancer",
                "tls": {"secretName": "go-tls", "hsts": {}},
            })),
            Some("gateway"),
        ),
        (
            gateway(json!({
                "provider": "GatewayAPI",
                "hosts": ["go.example.com"],
                "parentRefs": [{"name": "public", "namespace": "infra"}],
            })),
            Some("gateway"),
        ),
    ]
}

#[test]
fn every_field_takes_any_value_without_harm() {
    let admission = Admission::of_the_definition();
    let mut judgements: BTreeMap<Judgement, usize> = BTreeMap::new();
    for (spec, section) in bases() {
        let mut base = Base::new(&admission, &spec);
        for mutation in mutations(&admission.spec, &spec, section) {
            *judgements.entry(base.mutate(&mutation)).or_default() += 1;
        }
    }
    let number: usize = judgements.values().sum();
    println!("{number} mutations: {judgements:?}");
    // Whatever the schema becomes, a test that mutates little proves little.
    for judgement in [Judgement::NotAdmitted, Judgement::Accepted] {
        assert!(judgements.get(&judgement) > Some(&300), "{judgements:?}");
    }
}
